// Predicts what warnings.warn() would do with a warning, without issuing it.
#pragma once
#include "base/ref.h"

namespace gramme::guards {

/// True if a warning (a tuple of text, category and line), issued in a function with these globals, would not be
/// raised, and would be shown at most by the library's own functions on a file written in C. False if a filter's
/// pattern is unknown.
bool is_harmless_warning(PyObject* globals, PyObject* warning);

}  // namespace gramme::guards
