// Python's integers by their layout, where it is faster than asking.
#pragma once
#include "cpython/features.h"

namespace gramme::cpython {

/// True if the magnitude of an int, of any class, is below 2**30. Its size says so up to 3.11; later the size means
/// nothing.
inline bool has_one_digit(PyObject* integer) {
  static_assert(PyLong_SHIFT == 30);
#if GRAMME_PYTHON_COMPACT_INTS
  return PyUnstable_Long_IsCompact(reinterpret_cast<PyLongObject*>(integer));
#else
  return Py_SIZE(integer) >= -1 && Py_SIZE(integer) <= 1;
#endif
}

}  // namespace gramme::cpython
