// The boundary where CPython calls C++: exceptions of C++ become Python's.
#pragma once
#include <Python.h>

#include <new>

#include "base/error.h"

namespace gramme::runtime {

/// C++ exceptions end here: Python must not see them.
template <class Body>
PyObject* guarded(Body body) noexcept {
  try {
    return body();
  } catch (const PythonError&) {
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_SystemError, error.what());
  }
  return nullptr;
}

}  // namespace gramme::runtime
