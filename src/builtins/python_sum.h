// sum(), with the loops in which CPython adds ints and floats before it asks their types.
#pragma once
#include "builtins/python_support.h"

namespace gramme::builtins {

Value* sum(Trace& trace, const Args& args);

}  // namespace gramme::builtins
