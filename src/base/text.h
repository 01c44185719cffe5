// The UTF-8 of a str, where one is needed.
#pragma once
#include <Python.h>

#include <string>

#include "base/error.h"

namespace gramme {

/// The UTF-8 of a name or text in a capture; ends the segment at a lone surrogate, which has none.
inline std::string utf8_of(PyObject* text) {
  Py_ssize_t size = 0;
  if (const char* bytes = PyUnicode_AsUTF8AndSize(text, &size)) return {bytes, static_cast<size_t>(size)};
  PyErr_Clear();
  cannot(Reason::ArgumentKind, "text with a lone surrogate");
}

}  // namespace gramme
