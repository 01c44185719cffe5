#pragma once
#include "builtins/python_support.h"

namespace gramme::builtins {

Value* sum(Trace& trace, const Args& args);

}  // namespace gramme::builtins
