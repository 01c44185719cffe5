// `assert` and `if …: raise` on tensor data, or on a number computed from it.
#pragma once
#include <optional>

#include "interp/interpreter.h"

namespace gramme::interp {

/// For a conditional jump on data of which one side only raises: the truth that leads to the other side, after adding
/// an assertion of it to the graph. If the assertion fails, the frame runs uncompiled and raises the program's
/// exception. Nullopt for other jumps.
std::optional<bool> asserted_truth(trace::Trace& trace, const Frame& frame, Value* operand);

}  // namespace gramme::interp
