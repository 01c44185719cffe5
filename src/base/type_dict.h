// The namespace of a class: what its own body and later assignments put there, without its bases.
#pragma once
#include <Python.h>

namespace gramme {

/// What CPython says, from 3.12 on: there its own static types keep theirs with the interpreter.
template <class Type>
auto dict_by_function(Type* type, int) -> decltype(PyType_GetDict(type)) {
  PyObject* dict = PyType_GetDict(type);
  Py_XDECREF(dict);
  return dict;
}
template <class Type>
PyObject* dict_by_function(Type*, long) {
  return nullptr;
}

/// Borrowed, good as long as the type lives. The one place that knows where a type keeps it.
inline PyObject* type_dict(PyTypeObject* type) { return type->tp_dict ? type->tp_dict : dict_by_function(type, 0); }
inline PyObject* type_dict(PyObject* type) { return type_dict(reinterpret_cast<PyTypeObject*>(type)); }

}  // namespace gramme
