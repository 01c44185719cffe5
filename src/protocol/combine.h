// Binary operators of builtin containers. Other rooms may use only `extend` and `update`.
#pragma once
#include "protocol/protocol.h"

namespace gramme::protocol {

/// The operands of an operator: their builtin parts, and type names for messages.
struct Operands {
  Value *left, *right;
  std::string left_name, right_name;
};
/// `left op right` for containers; null if no container supports it. In-place forms change `left` and return it.
Value* combine(Trace& trace, int op, const Operands& operands);
/// list.extend and deque.extend. Both must be seen.
void extend(Trace& trace, Value* sequence, Value* iterable);
/// dict.update with a mapping; false if `other` is no mapping that is modelled.
bool update(Trace& trace, value::Dict* dict, Value* other);
/// Drops the excess items of a bounded deque at one end.
void trim(value::Deque* deque, bool from_left = true);

}  // namespace gramme::protocol
