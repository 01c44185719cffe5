// Floats that no capture may bind any more.
#pragma once
#include "trace/policy.h"

namespace gramme::trace {

/// True if a capture ends where it would need the number as a constant, because there were captures for several values.
/// A float on the stack has just been computed by the program: a third value says that each run brings another one.
/// Others, which may be one of a few, have until the recompile limit.
bool is_left_open(const Policy& policy, const Source* source, PyObject* number);

}  // namespace gramme::trace
