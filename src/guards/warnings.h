// What warnings.warn() does with a warning, asked without issuing it.
#pragma once
#include "base/ref.h"

namespace gramme::guards {

/// True if the warning, a tuple of text, category and line, issued in a function with these globals, is not raised, and
/// shown, if at all, by the library's own functions on a file in C. Filters with patterns of the program's own are not
/// asked.
bool is_harmless_warning(PyObject* globals, PyObject* warning);

}  // namespace gramme::guards
