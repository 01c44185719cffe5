// Instructions for attributes, items and operators.
#include <iterator>

#include "cpython/internal.h"
#include "cpython/steps.h"

namespace gramme::cpython {

Outcome load_attr(Step& s) { return s.replace(1, PyObject_GetAttr(s.frame.item(), s.name(s.arg))); }

Outcome store_attr(Step& s) { return s.dropped(2, PyObject_SetAttr(s.frame.item(1), s.name(s.arg), s.frame.item(2))); }

Outcome delete_attr(Step& s) { return s.dropped(1, PyObject_SetAttr(s.frame.item(), s.name(s.arg), nullptr)); }

Outcome load_method(Step& s) {
  PyObject* method = nullptr;
  if (_PyObject_GetMethod(s.frame.item(), s.name(s.arg), &method)) {
    s.frame.push(method);
    s.frame.swap(2);
    return Outcome::Next;
  }
  if (!method) return Outcome::Raised;
  const auto self = Owned<>::steal(s.frame.pop());
  s.push_callable(method);
  return Outcome::Next;
}

namespace {

/// An attribute of super(class, self): `super`, class and self are the top items.
Owned<> super_attribute(Step& s) {
  OperandArray operands(s.frame, 2);
  const size_t count = s.arg & 1 ? 2 : 0;
  auto super = Owned<>::steal(PyObject_Vectorcall(s.frame.item(3), operands.get(), count, nullptr));
  return super ? Owned<>::steal(PyObject_GetAttr(super.get(), s.name(s.arg >> 1))) : Owned<>();
}

}  // namespace

Outcome load_super_attr(Step& s) { return s.replace(3, super_attribute(s).release()); }

Outcome load_super_method(Step& s) {
  Owned<> attribute = super_attribute(s);
  if (!attribute) return Outcome::Raised;
  s.frame.drop_operands(3);
  s.push_callable(attribute.release());
  return Outcome::Next;
}

Outcome binary_subscr(Step& s) {
  return s.replace(2, PyObject_GetItem(s.frame.item(2), s.frame.item(1)), kBinaryDropOrder);
}

Outcome store_subscr(Step& s) {
  return s.dropped(3, PyObject_SetItem(s.frame.item(2), s.frame.item(1), s.frame.item(3)));
}

Outcome delete_subscr(Step& s) { return s.dropped(2, PyObject_DelItem(s.frame.item(2), s.frame.item(1))); }

namespace {

/// The slice of start and stop on top of the stack. In versions where only the slice holds them then, they are popped.
struct TopSlice {
  explicit TopSlice(Step& s) : made(Owned<>::steal(PySlice_New(s.frame.item(2), s.frame.item(1), nullptr))) {
    if (made && kLeft == 0) s.frame.drop(2);
  }
  static constexpr int kLeft = GRAMME_PYTHON_SLICES_LEAVE_OPERANDS ? 2 : 0;  // operands left on the stack
  Owned<> made;
};

}  // namespace

Outcome binary_slice(Step& s) {
  TopSlice slice(s);
  constexpr int kContainer = 1 + TopSlice::kLeft;
  PyObject* result = slice.made ? PyObject_GetItem(s.frame.item(kContainer), slice.made.get()) : nullptr;
  slice.made = {};
  return s.replace(kContainer, result);
}

Outcome store_slice(Step& s) {
  TopSlice slice(s);
  constexpr int kContainer = 1 + TopSlice::kLeft;
  PyObject *container = s.frame.item(kContainer), *value = s.frame.item(kContainer + 1);
  const int status = slice.made ? PyObject_SetItem(container, slice.made.get(), value) : -1;
  slice.made = {};
  return s.dropped(kContainer + 1, status);
}

Outcome unary_positive(Step& s) { return s.replace(1, PyNumber_Positive(s.frame.item())); }
Outcome unary_negative(Step& s) { return s.replace(1, PyNumber_Negative(s.frame.item())); }
Outcome unary_invert(Step& s) { return s.replace(1, PyNumber_Invert(s.frame.item())); }

Outcome to_bool(Step& s) {
  const int truth = PyObject_IsTrue(s.frame.item());
  return truth < 0 ? Outcome::Raised : s.replace(1, new_bool(truth));
}

Outcome unary_not(Step& s) {
  int truth = PyObject_IsTrue(s.frame.item());
  return truth < 0 ? Outcome::Raised : s.replace(1, new_bool(!truth));
}

namespace {

PyObject* power(PyObject* base, PyObject* exponent) { return PyNumber_Power(base, exponent, Py_None); }
PyObject* power_in_place(PyObject* base, PyObject* exponent) { return PyNumber_InPlacePower(base, exponent, Py_None); }

using BinaryFunction = PyObject* (*)(PyObject*, PyObject*);
constexpr BinaryFunction kBinary[] = {
    // indexed by NB_ADD … NB_INPLACE_XOR
    PyNumber_Add,
    PyNumber_And,
    PyNumber_FloorDivide,
    PyNumber_Lshift,
    PyNumber_MatrixMultiply,
    PyNumber_Multiply,
    PyNumber_Remainder,
    PyNumber_Or,
    power,
    PyNumber_Rshift,
    PyNumber_Subtract,
    PyNumber_TrueDivide,
    PyNumber_Xor,
    PyNumber_InPlaceAdd,
    PyNumber_InPlaceAnd,
    PyNumber_InPlaceFloorDivide,
    PyNumber_InPlaceLshift,
    PyNumber_InPlaceMatrixMultiply,
    PyNumber_InPlaceMultiply,
    PyNumber_InPlaceRemainder,
    PyNumber_InPlaceOr,
    power_in_place,
    PyNumber_InPlaceRshift,
    PyNumber_InPlaceSubtract,
    PyNumber_InPlaceTrueDivide,
    PyNumber_InPlaceXor,
};
static_assert(std::size(kBinary) == 26);

}  // namespace

PyObject* binary_operation(int op, PyObject* left, PyObject* right) { return kBinary[op](left, right); }

Outcome binary_op(Step& s) {
  return s.replace(2, binary_operation(s.arg, s.frame.item(2), s.frame.item(1)), kBinaryDropOrder);
}

Outcome compare_op(Step& s) { return s.replace(2, PyObject_RichCompare(s.frame.item(2), s.frame.item(1), s.arg)); }

Outcome is_op(Step& s) { return s.replace(2, new_bool((s.frame.item(2) == s.frame.item(1)) != s.arg)); }

Outcome contains_op(Step& s) {
  int found = PySequence_Contains(s.frame.item(1), s.frame.item(2));
  return found < 0 ? Outcome::Raised : s.replace(2, new_bool(found != s.arg));
}

Outcome get_len(Step& s) {
  Py_ssize_t length = PyObject_Length(s.frame.item());
  return length < 0 ? Outcome::Raised : s.push(PyLong_FromSsize_t(length));
}

#if GRAMME_PYTHON_EXPORTED_HELPERS
Outcome call_intrinsic_1(Step& s) {
  return s.replace(1, _PyIntrinsics_UnaryFunctions[s.arg].func(s.thread, s.frame.item()));
}

Outcome call_intrinsic_2(Step& s) {
  return s.replace(2, _PyIntrinsics_BinaryFunctions[s.arg].func(s.thread, s.frame.item(2), s.frame.item(1)));
}
#endif

}  // namespace gramme::cpython
