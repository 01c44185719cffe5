// CPython's operators by number: special method names, and the functions of the operator module that graphs call.
#pragma once
#include <Python.h>
#include <opcode.h>

#include "base/ref.h"

namespace gramme::protocol {

struct Operator {
  PyObject* function;                              // operator.add
  PyObject* in_place;                              // operator.iadd
  PyObject *method, *reflected, *in_place_method;  // __add__, __radd__, __iadd__
  const char* symbol;                              // "+"
};
struct Comparison {
  PyObject* function;  // operator.lt
  PyObject* method;    // __lt__
  int swapped;         // Py_GT
  const char* symbol;  // "<"
};

constexpr int kOperators = NB_INPLACE_ADD;
inline bool is_in_place(int op) { return op >= NB_INPLACE_ADD; }
inline int plain_operator(int op) { return op % kOperators; }

/// By NB_* number, in-place forms included.
const Operator& operator_row(int op);
/// By Py_LT … Py_GE.
const Comparison& comparison_row(int op);
/// A function of the operator module; lives as long as the process.
PyObject* operator_function(const char* name);

}  // namespace gramme::protocol
