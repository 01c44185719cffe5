// Attributes, items and operators.
#include <iterator>

#include "cpython/v311/internal.h"
#include "cpython/v311/steps.h"

namespace gramme::cpython {

Outcome load_attr(Step& s) { return s.replace(1, PyObject_GetAttr(s.frame.item(), s.name(s.arg))); }

Outcome store_attr(Step& s) { return s.dropped(2, PyObject_SetAttr(s.frame.item(1), s.name(s.arg), s.frame.item(2))); }

Outcome delete_attr(Step& s) { return s.dropped(1, PyObject_SetAttr(s.frame.item(), s.name(s.arg), nullptr)); }

Outcome load_method(Step& s) {
  PyObject* method = nullptr;
  bool unbound = _PyObject_GetMethod(s.frame.item(), s.name(s.arg), &method);
  if (!method) return Outcome::Raised;
  PyObject* self = s.frame.pop();
  s.frame.push(unbound ? method : nullptr);
  s.frame.push(unbound ? self : method);
  if (!unbound) Py_DECREF(self);
  return Outcome::Next;
}

Outcome binary_subscr(Step& s) { return s.replace(2, PyObject_GetItem(s.frame.item(2), s.frame.item(1))); }

Outcome store_subscr(Step& s) {
  return s.dropped(3, PyObject_SetItem(s.frame.item(2), s.frame.item(1), s.frame.item(3)));
}

Outcome delete_subscr(Step& s) { return s.dropped(2, PyObject_DelItem(s.frame.item(2), s.frame.item(1))); }

Outcome unary_positive(Step& s) { return s.replace(1, PyNumber_Positive(s.frame.item())); }
Outcome unary_negative(Step& s) { return s.replace(1, PyNumber_Negative(s.frame.item())); }
Outcome unary_invert(Step& s) { return s.replace(1, PyNumber_Invert(s.frame.item())); }

Outcome unary_not(Step& s) {
  int truth = PyObject_IsTrue(s.frame.item());
  return truth < 0 ? Outcome::Raised : s.replace(1, new_bool(!truth));
}

namespace {

PyObject* power(PyObject* base, PyObject* exponent) { return PyNumber_Power(base, exponent, Py_None); }
PyObject* power_in_place(PyObject* base, PyObject* exponent) { return PyNumber_InPlacePower(base, exponent, Py_None); }

using BinaryFunction = PyObject* (*)(PyObject*, PyObject*);
constexpr BinaryFunction kBinary[] = {
    // in the order of NB_ADD … NB_INPLACE_XOR
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

Outcome binary_op(Step& s) { return s.replace(2, binary_operation(s.arg, s.frame.item(2), s.frame.item(1))); }

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

}  // namespace gramme::cpython
