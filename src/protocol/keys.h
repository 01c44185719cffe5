// The use of a key, which later versions of CPython name in the TypeError for an unhashable one.
#pragma once
#include "protocol/protocol.h"

namespace gramme::protocol {

/// Other: CPython does not name it there, or that is unknown.
enum class KeyOf : uint8_t { Other, Dict, Set };
/// The use of a key of this dict; methods of ordered dicts hash keys themselves.
KeyOf key_of(const value::Dict* dict);
Value* table_key(Trace& trace, Value* key, KeyOf use);
/// Raises the TypeError for a key that is unhashable because of `part` (perhaps itself).
[[noreturn]] void raise_unhashable(Trace& trace, Value* key, Value* part, KeyOf use);

}  // namespace gramme::protocol
