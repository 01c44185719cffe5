// What runs when a suspended generator dies.
#pragma once
#include "interp/interpreter.h"

namespace gramme::interp {

/// True if closing the generator of this suspended frame would run code of it: a finally, a with, an except that
/// catches GeneratorExit. False only if that is certain.
bool closing_runs_code(trace::Trace& trace, Frame& frame);

/// What a generator suspended in `yield from` delegates to; null if it stands elsewhere.
Value* delegate_of(trace::Trace& trace, Frame& frame);

}  // namespace gramme::interp
