// Python's integers, the same for every version.
#pragma once
#include <Python.h>

namespace gramme {

/// -1, 0 or 1 for an int of any size.
inline int sign_of(PyObject* integer) {
  int beyond = 0;
  const long number = PyLong_AsLongAndOverflow(integer, &beyond);
  return beyond ? beyond : (number > 0) - (number < 0);
}

/// True if two exact ints are equal.
inline bool same_int(PyObject* a, PyObject* b) {
  int a_beyond = 0, b_beyond = 0;
  const long x = PyLong_AsLongAndOverflow(a, &a_beyond), y = PyLong_AsLongAndOverflow(b, &b_beyond);
  if (a_beyond != b_beyond || x != y) return false;
  return !a_beyond || PyObject_RichCompareBool(a, b, Py_EQ) == 1;
}

}  // namespace gramme
