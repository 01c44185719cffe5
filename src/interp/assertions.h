// `assert` and `if …: raise` on the data of a tensor, or on a number that comes out of them.
#pragma once
#include <optional>

#include "interp/interpreter.h"

namespace gramme::interp {

/// The truth of what this conditional jump asks, if it is of data and one side does nothing but raise: that of the
/// other side, which the graph asserts. Where it does not hold the graph raises, and the frame runs plainly and raises
/// what the program raises.
std::optional<bool> asserted_truth(trace::Trace& trace, const Frame& frame, Value* operand);

}  // namespace gramme::interp
