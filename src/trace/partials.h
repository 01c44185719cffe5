// Placeholders of functools.partial (Python 3.14): places left open for the arguments of the call.
#pragma once
#include "base/imported.h"
#include "base/once.h"
#include "cpython/features.h"

namespace gramme::trace {

/// True for functools.Placeholder.
inline bool is_open_place(PyObject* object) {
  return GRAMME_PYTHON_PARTIALS_BIND && object &&
         object == once([] { return imported("functools", "Placeholder").release(); });
}

}  // namespace gramme::trace
