// What Python code has under a name.
#pragma once
#include "base/ref.h"

namespace gramme {

/// An attribute of a module, which is imported if it is not yet.
inline Owned<> imported(const char* module, const char* name) {
  return take(PyObject_GetAttrString(take(PyImport_ImportModule(module)).get(), name));
}
/// The same of a type. It lives as long as the process.
inline PyTypeObject* imported_type(const char* module, const char* name) {
  return reinterpret_cast<PyTypeObject*>(imported(module, name).release());
}

}  // namespace gramme
