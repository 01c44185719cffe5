// as_key() of python_support.h for a key that is known to be a dict's or a set's.
#pragma once
#include "builtins/python_support.h"
#include "protocol/keys.h"

namespace gramme::builtins {

using protocol::KeyOf;
Value* as_key(Trace& trace, Value* key, KeyOf use);

}  // namespace gramme::builtins
