// Operators and methods of sets. Members are combined symbolically; their places come from the same call on real sets.
#pragma once
#include "protocol/protocol.h"
#include "trace/sets.h"

namespace gramme::protocol {

/// The distinct keys of an iterable, in order, and a real object equal to it for methods of real sets (null if
/// unknown).
struct Keys {
  value::Table entries;
  Owned<> real;
};
Keys keys_of(Trace& trace, Value* iterable);
/// The same for a set, keys view or items view, as operators accept them.
Keys operand_of(Trace& trace, Value* seen);

enum class SetOperation : uint8_t { Union, Intersection, Difference, SymmetricDifference };

/// set.update(iterable); also of a set under construction.
void update_set(Trace& trace, value::Set* set, Value* iterable);
/// set.union(*others) and the like: a new set, or the set itself changed.
value::Set* combine_by_method(Trace& trace, SetOperation operation, value::Set* set, const std::vector<Value*>& others,
                              bool in_place);
/// set | other and the like, with set-like operands; `op` is CPython's number of the operator.
Value* combine_by_operator(Trace& trace, int op, Value* left, Value* right);
value::Set* copy_of_set(Trace& trace, value::Set* set);

}  // namespace gramme::protocol
