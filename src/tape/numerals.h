// Numbers among operators' arguments, alone and in lists of any kind.
#pragma once
#include <algorithm>

#include "tape/tape.h"

namespace gramme::native {

// ---- values of the dispatcher. Whoever looks into lists among arguments, or puts something else into them, does it
// by these: a list may hold ints, floats, numbers of all kinds, bools, tensors and what is left out, or lists.

/// Calls `visit` with every non-list part of the value.
template <class Visit>
void each_part(const c10::IValue& value, Visit&& visit) {
  if (!value.isList()) return void(visit(value));
  for (const c10::IValue& item : value.toListRef()) each_part(item, visit);
}

/// True if `is` holds for some part.
template <class Is>
bool any_part(const c10::IValue& value, Is&& is) {
  if (!value.isList()) return is(value);
  return std::ranges::any_of(value.toListRef(), [&](const c10::IValue& item) { return any_part(item, is); });
}

/// The type of a list of plain numbers, for a list of symbolic ones.
c10::TypePtr plain_type(const c10::TypePtr& type);

/// The value with every part replaced by `other(part)`, which returns no symbolic numbers.
template <class Other>
c10::IValue with_parts(const c10::IValue& value, Other&& other) {
  if (!value.isList()) return other(value);
  c10::impl::GenericList list(plain_type(value.toList().elementType()));
  list.reserve(value.toListRef().size());
  for (const c10::IValue& item : value.toListRef()) list.push_back(with_parts(item, other));
  return list;
}

inline bool is_symbolic(const c10::IValue& part) { return part.isSymInt() || part.isSymFloat() || part.isSymBool(); }

// ---- numerals

inline int64_t integer_at(const Numeral& number, const Run& run) {
  return number.kind == Numeral::Whole ? run.numbers[number.index] : number.constant.toLong();
}
/// The scalar that an operator receives for the number.
c10::Scalar scalar_at(const Numeral& number, const Run& run);
/// The boxed value of an argument that consists of numbers.
c10::IValue numbers_at(const OperatorArgument& argument, const Run& run);
/// The wrapped-number tensor that PyTorch makes of the 2 in x + 2.
at::Tensor number_tensor(const c10::Scalar& value);

}  // namespace gramme::native
