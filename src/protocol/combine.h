// Binary operators of the builtin containers. Not for other rooms, but for `extend` and `update`.
#pragma once
#include "protocol/protocol.h"

namespace gramme::protocol {

/// The operands of an operator: what builtin types hold of them, and the types' names for messages.
struct Operands {
  Value *left, *right;
  std::string left_name, right_name;
};
/// `left op right` where a container takes part; null if no container answers to it. In-place forms change `left` and
/// return it.
Value* combine(Trace& trace, int op, const Operands& operands);
/// list.extend and deque.extend. Both must be seen.
void extend(Trace& trace, Value* sequence, Value* iterable);
/// dict.update with a mapping; false if `other` is no mapping that is modelled.
bool update(Trace& trace, value::Dict* dict, Value* other);
/// Drops what a bounded deque has too much, at the left or at the right end.
void trim(value::Deque* deque, bool from_left = true);

}  // namespace gramme::protocol
