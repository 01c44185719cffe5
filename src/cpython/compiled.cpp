// Parts of code objects that need CPython's internal headers.
#include "cpython/encoding.h"
#include "cpython/features.h"

#if GRAMME_PYTHON_COMMON_CONSTANTS
#undef HAVE_STD_ATOMIC
#define Py_BUILD_CORE 1
#include <internal/pycore_interp.h>
#undef Py_BUILD_CORE
#endif

namespace gramme::cpython {

Units compiled_units(PyCodeObject* code, Owned<>* keeps) {
#if GRAMME_PYTHON_MONITORING
  *keeps = take(PyCode_GetCode(code));
  return {reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(keeps->get())), unit_count(code)};
#else
  static_cast<void>(keeps);
  return units_of(code);
#endif
}

PyObject* common_constant(int index) {
#if GRAMME_PYTHON_COMMON_CONSTANTS
  return PyInterpreterState_Get()->common_consts[index];
#else
  static_cast<void>(index);
  return nullptr;
#endif
}

}  // namespace gramme::cpython
