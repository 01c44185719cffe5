// Where on the stack, in handlers, the index of the instruction that raised lies: what CPython pushes for RERAISE.
#pragma once
#include <vector>

#include "bytecode/code.h"

namespace gramme::bytecode {

/// Of the items on the stack where a frame stands in front of the instruction at code unit `unit`, the lowest first: is
/// it one? Empty where none is.
std::vector<bool> saved_indices(const Code& code, int unit);

}  // namespace gramme::bytecode
