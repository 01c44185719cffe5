// Reads Python ints by their layout, where that is faster than the C API.
#pragma once
#include "cpython/features.h"

namespace gramme::cpython {

/// True if the magnitude of an int (or of an instance of a subclass) is below 2**30. Only up to 3.11 does the object's
/// size tell.
inline bool has_one_digit(PyObject* integer) {
  static_assert(PyLong_SHIFT == 30);
#if GRAMME_PYTHON_COMPACT_INTS
  return PyUnstable_Long_IsCompact(reinterpret_cast<PyLongObject*>(integer));
#else
  return Py_SIZE(integer) >= -1 && Py_SIZE(integer) <= 1;
#endif
}

}  // namespace gramme::cpython
