// The UTF-8 of a str, where one is needed.
#pragma once
#include <Python.h>

#include <string>

#include "base/error.h"

namespace gramme {

/// Of a name or a text in a capture, which ends the segment at a lone surrogate: it has no UTF-8.
inline std::string utf8_of(PyObject* text) {
  Py_ssize_t size = 0;
  if (const char* bytes = PyUnicode_AsUTF8AndSize(text, &size)) return {bytes, static_cast<size_t>(size)};
  PyErr_Clear();
  cannot(Reason::ArgumentKind, "text with a lone surrogate");
}

}  // namespace gramme
