// Floats that captures no longer specialise, because several values of them were captured.
#pragma once
#include "trace/policy.h"

namespace gramme::trace {

/// True if a capture must end where it would need the number as a constant. For a float on the stack, which the program
/// has just computed, that is so from the third value on. Other floats may be one of a few values, so they are
/// specialised until the recompile limit.
bool is_left_open(const Policy& policy, const Source* source, PyObject* number);

}  // namespace gramme::trace
