// Arguments of a compiled call: a Slot type for each C++ type in operators' signatures.
//
// A slot is made once from an OperatorArgument and const afterwards, since several threads may run one tape. State of a
// call is in the object that `get` returns, which the caller keeps during the call.
//
// A slot that cannot hold the argument throws c10::Error; the operator is then called boxed.
#pragma once
#include <ATen/core/IListRef.h>
#include <c10/util/MaybeOwned.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tape/numerals.h"

namespace gramme::native {

// ---- borrowed tensors: containers of torch's types that hold no references

using Borrowing = c10::MaybeOwnedTraits<at::Tensor>;

/// A borrowed optional tensor, for one call.
class BorrowedOptional {
 public:
  explicit BorrowedOptional(const at::Tensor* tensor) {
    if (tensor) value_.emplace(Borrowing::createBorrow(*tensor));
  }
  BorrowedOptional(const BorrowedOptional&) = delete;
  BorrowedOptional& operator=(const BorrowedOptional&) = delete;
  ~BorrowedOptional() {
    if (value_) Borrowing::destroyBorrow(*value_);
  }
  operator const std::optional<at::Tensor>&() const { return value_; }

 private:
  std::optional<at::Tensor> value_;
};

/// A borrowed list of tensors, for one call.
class BorrowedList {
 public:
  BorrowedList(const std::vector<Register>& registers, const Run& run) {
    tensors_.reserve(registers.size());  // the only line that may throw, while nothing is borrowed
    for (Register r : registers) tensors_.push_back(Borrowing::createBorrow(*run.tensors[r]));
  }
  BorrowedList(const BorrowedList&) = delete;
  BorrowedList& operator=(const BorrowedList&) = delete;
  ~BorrowedList() {
    for (at::Tensor& tensor : tensors_) Borrowing::destroyBorrow(tensor);
  }
  operator at::TensorList() const { return tensors_; }

 private:
  c10::SmallVector<at::Tensor, 8> tensors_;
};

/// The same as ITensorListRef, which covers boxed and unboxed lists.
class BorrowedListRef {
 public:
  BorrowedListRef(const std::vector<Register>& registers, const Run& run)
      : list_(registers, run), ref_(static_cast<at::TensorList>(list_)) {}
  operator const at::ITensorListRef&() const { return ref_; }

 private:
  BorrowedList list_;
  at::ITensorListRef ref_;
};

// ---- reading arguments

/// The argument as a constant; throws if it varies.
inline c10::IValue constant_of(const OperatorArgument& argument) {
  TORCH_CHECK(argument.kind == OperatorArgument::Constant, "a constant is wanted");
  TORCH_CHECK(!any_part(argument.constant, is_symbolic), "a symbolic number is not constant");
  return argument.constant;
}

inline Register register_of(const OperatorArgument& argument) {
  TORCH_CHECK(argument.kind == OperatorArgument::Tensor, "a tensor is wanted");
  return argument.registers.at(0);
}

/// The argument's register; kNone for an omitted tensor.
inline Register optional_register_of(const OperatorArgument& argument) {
  const bool absent = argument.kind == OperatorArgument::Constant && argument.constant.isNone();
  return absent ? kNone : register_of(argument);
}

/// The registers of a list of tensors; an empty list may be a constant.
inline const std::vector<Register>& registers_of(const OperatorArgument& argument, OperatorArgument::Kind kind) {
  const bool is_empty = argument.kind == OperatorArgument::Constant && argument.constant.isList() &&
                        argument.constant.toListRef().empty();
  TORCH_CHECK(argument.kind == kind || is_empty, "a list of tensors is wanted");
  return argument.registers;
}

/// Converts a constant as the dispatcher does for boxed calls of C++ kernels.
template <class T>
decltype(auto) unbox(c10::IValue value) {
  return c10::impl::ivalue_to_arg<std::decay_t<T>, false>::call(value);
}

// ---- slots

/// The primary template, for types that are no tensor.
template <class T>
class Slot {
 public:
  explicit Slot(const OperatorArgument& argument) : value_(unbox<T>(constant_of(argument))) {}
  /// Stored as a vector for an ArrayRef; otherwise as T without reference.
  const auto& get(const Run&) const { return value_; }

 private:
  std::decay_t<decltype(unbox<T>(std::declval<c10::IValue>()))> value_;
};

/// String views; the slot owns the string.
template <class View, class String>
class StringSlot {
 public:
  explicit StringSlot(const OperatorArgument& argument) : value_(constant_of(argument).template to<String>()) {}
  View get(const Run&) const { return View(value_); }

 private:
  String value_;
};
template <>
class Slot<std::string_view> : public StringSlot<std::string_view, std::string> {
  using StringSlot::StringSlot;
};
template <>
class Slot<std::optional<std::string_view>>
    : public StringSlot<std::optional<std::string_view>, std::optional<std::string>> {
  using StringSlot::StringSlot;
};

/// Optional lists of numbers.
template <class View, class Number>
class OptionalArraySlot {
 public:
  explicit OptionalArraySlot(const OperatorArgument& argument) : value_(unbox<View>(constant_of(argument)).list) {}
  View get(const Run&) const { return value_ ? View(c10::ArrayRef<Number>(*value_)) : View(); }

 private:
  std::optional<std::vector<Number>> value_;
};
template <class Number>
class Slot<c10::OptionalArrayRef<Number>> : public OptionalArraySlot<c10::OptionalArrayRef<Number>, Number> {
  using OptionalArraySlot<c10::OptionalArrayRef<Number>, Number>::OptionalArraySlot;
};
template <class Number>
class Slot<std::optional<c10::ArrayRef<Number>>>
    : public OptionalArraySlot<std::optional<c10::ArrayRef<Number>>, Number> {
  using OptionalArraySlot<std::optional<c10::ArrayRef<Number>>, Number>::OptionalArraySlot;
};

/// The tape's number; throws unless it is whole.
inline NumberId whole_number_of(const Numeral& number) {
  TORCH_CHECK(number.kind == Numeral::Whole, "a whole number of the tape is wanted");
  return number.index;
}

/// Whole numbers, constant or computed by the tape.
template <class T>
class NumberSlot {
 public:
  explicit NumberSlot(const OperatorArgument& argument) {
    if (argument.kind == OperatorArgument::Number)
      number_ = whole_number_of(argument.numbers.at(0));
    else
      constant_ = unbox<T>(constant_of(argument));
  }
  T get(const Run& run) const { return number_ < 0 ? constant_ : T(run.numbers[number_]); }

 private:
  NumberId number_ = -1;
  T constant_{};
};
template <>
class Slot<int64_t> : public NumberSlot<int64_t> {
  using NumberSlot::NumberSlot;
};
template <>
class Slot<c10::SymInt> : public NumberSlot<c10::SymInt> {
  using NumberSlot::NumberSlot;
};
template <>
class Slot<const at::Scalar&> : public NumberSlot<at::Scalar> {
  using NumberSlot::NumberSlot;
};
template <>
class Slot<std::optional<int64_t>> : public NumberSlot<std::optional<int64_t>> {
  using NumberSlot::NumberSlot;
};
template <>
class Slot<std::optional<c10::SymInt>> : public NumberSlot<std::optional<c10::SymInt>> {
  using NumberSlot::NumberSlot;
};

/// A list of numbers, for one call.
template <class Number>
class NumberList {
 public:
  explicit NumberList(const std::vector<Number>& constant) : list_(constant) {}
  NumberList(const std::vector<Numeral>& numbers, const Run& run) {
    for (const Numeral& number : numbers) made_.emplace_back(integer_at(number, run));
    list_ = made_;
  }
  NumberList(const NumberList&) = delete;
  NumberList& operator=(const NumberList&) = delete;
  operator c10::ArrayRef<Number>() const { return list_; }

 private:
  c10::SmallVector<Number, 5> made_;
  c10::ArrayRef<Number> list_;
};

template <class Number>
class NumbersSlot {
 public:
  explicit NumbersSlot(const OperatorArgument& argument) {
    if (argument.kind == OperatorArgument::Integers)
      numbers_ = argument.numbers;
    else
      constant_ = unbox<c10::ArrayRef<Number>>(constant_of(argument));
  }
  NumberList<Number> get(const Run& run) const {
    return numbers_.empty() ? NumberList<Number>(constant_) : NumberList<Number>(numbers_, run);
  }

 private:
  std::vector<Numeral> numbers_;  // empty: the list is constant
  std::vector<Number> constant_;
};
template <>
class Slot<at::IntArrayRef> : public NumbersSlot<int64_t> {
  using NumbersSlot::NumbersSlot;
};
template <>
class Slot<c10::SymIntArrayRef> : public NumbersSlot<c10::SymInt> {
  using NumbersSlot::NumbersSlot;
};

template <>
class Slot<const at::Tensor&> {
 public:
  explicit Slot(const OperatorArgument& argument) : register_(register_of(argument)) {}
  const at::Tensor& get(const Run& run) const { return *run.tensors[register_]; }

 private:
  Register register_;
};

/// A tensor to be written. Operators change its data, not the handle.
template <>
class Slot<at::Tensor&> {
 public:
  explicit Slot(const OperatorArgument& argument) : register_(register_of(argument)) {}
  at::Tensor& get(const Run& run) const { return const_cast<at::Tensor&>(*run.tensors[register_]); }

 private:
  Register register_;
};

template <>
class Slot<const std::optional<at::Tensor>&> {
 public:
  explicit Slot(const OperatorArgument& argument) : register_(optional_register_of(argument)) {}
  BorrowedOptional get(const Run& run) const {
    return BorrowedOptional(register_ == kNone ? nullptr : run.tensors[register_]);
  }

 private:
  Register register_;
};

template <class List>
class ListSlot {
 public:
  explicit ListSlot(const OperatorArgument& argument) : registers_(registers_of(argument, OperatorArgument::Tensors)) {}
  List get(const Run& run) const { return List(registers_, run); }

 private:
  std::vector<Register> registers_;
};
template <>
class Slot<at::TensorList> : public ListSlot<BorrowedList> {
  using ListSlot::ListSlot;
};
template <>
class Slot<const at::ITensorListRef&> : public ListSlot<BorrowedListRef> {
  using ListSlot::ListSlot;
};

/// A list of optional tensors, for indexing. This list type owns its tensors.
using MaybeTensorList = c10::List<std::optional<at::Tensor>>;

inline MaybeTensorList maybe_tensors(const std::vector<Register>& registers, const Run& run) {
  MaybeTensorList list;
  list.reserve(registers.size());
  for (Register r : registers)
    list.push_back(r == kNone ? std::optional<at::Tensor>() : std::optional<at::Tensor>(*run.tensors[r]));
  return list;
}

template <>
class Slot<const MaybeTensorList&> {
 public:
  explicit Slot(const OperatorArgument& argument)
      : registers_(registers_of(argument, OperatorArgument::MaybeTensors)) {}
  MaybeTensorList get(const Run& run) const { return maybe_tensors(registers_, run); }

 private:
  std::vector<Register> registers_;
};

}  // namespace gramme::native
