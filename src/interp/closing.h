// Whether a suspended generator runs code when it dies.
#pragma once
#include "interp/interpreter.h"

namespace gramme::interp {

/// True if closing the generator of this suspended frame may run its code: a finally, a with, an except that catches
/// GeneratorExit.
bool closing_runs_code(trace::Trace& trace, Frame& frame);

/// The iterator that a generator suspended in `yield from` delegates to; null if it is suspended elsewhere.
Value* delegate_of(trace::Trace& trace, Frame& frame);

}  // namespace gramme::interp
