// What a key is for: the TypeError of one that is unhashable says it on later versions of CPython.
#pragma once
#include "protocol/protocol.h"

namespace gramme::protocol {

/// Other: CPython does not say it there, or it is not known whether it does.
enum class KeyOf : uint8_t { Other, Dict, Set };
/// What a key of the dict is used for: methods of ordered dicts take the hash themselves.
KeyOf key_of(const value::Dict* dict);
Value* table_key(Trace& trace, Value* key, KeyOf use);
/// Raises the TypeError for a key of which a part, or itself, is unhashable.
[[noreturn]] void raise_unhashable(Trace& trace, Value* key, Value* part, KeyOf use);

}  // namespace gramme::protocol
