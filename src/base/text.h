// Converts a Python str to UTF-8 inside a capture.
#pragma once
#include <Python.h>

#include <string>

#include "base/error.h"

namespace gramme {

/// The str's UTF-8. Ends the segment if the str has a lone surrogate, which UTF-8 cannot express.
inline std::string utf8_of(PyObject* text) {
  Py_ssize_t size = 0;
  if (const char* bytes = PyUnicode_AsUTF8AndSize(text, &size)) return {bytes, static_cast<size_t>(size)};
  PyErr_Clear();
  cannot(Reason::ArgumentKind, "text with a lone surrogate");
}

}  // namespace gramme
