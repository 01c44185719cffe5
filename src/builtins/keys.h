// as_key() of python_support.h with the use of the key (dict or set), for error messages.
#pragma once
#include "builtins/python_support.h"
#include "protocol/keys.h"

namespace gramme::builtins {

using protocol::KeyOf;
Value* as_key(Trace& trace, Value* key, KeyOf use);

}  // namespace gramme::builtins
