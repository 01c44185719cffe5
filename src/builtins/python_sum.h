// The model of sum(), with CPython's special loops for ints, floats and complex numbers.
#pragma once
#include "builtins/python_support.h"

namespace gramme::builtins {

Value* sum(Trace& trace, const Args& args);

}  // namespace gramme::builtins
