// The namespace of a class: what its own body and later assignments put there, without its bases.
#pragma once
#include <Python.h>

namespace gramme {

/// The class's own dict, borrowed, valid as long as the type. No other place knows where a type keeps it.
inline PyObject* type_dict(PyTypeObject* type) {
#ifdef _Py_TPFLAGS_STATIC_BUILTIN  // static builtin types keep it in the interpreter's state
  if (type->tp_dict) return type->tp_dict;
  PyObject* dict = PyType_GetDict(type);
  Py_DECREF(dict);
  return dict;
#else
  return type->tp_dict;
#endif
}
inline PyObject* type_dict(PyObject* type) { return type_dict(reinterpret_cast<PyTypeObject*>(type)); }

}  // namespace gramme
