// Finds modules and their attributes by name, importing them where asked to.
#pragma once
#include "base/ref.h"

namespace gramme {

/// The module under the name in sys.modules, borrowed; null if nobody has imported it.
inline PyObject* known_module(const char* name) { return PyDict_GetItemString(PyImport_GetModuleDict(), name); }

/// True until the module's code has run to its end, perhaps on another thread. Until then names may be missing.
inline bool is_being_imported(PyObject* module) {
  static PyObject* const k_spec = PyUnicode_InternFromString("__spec__");
  static PyObject* const k_flag = PyUnicode_InternFromString("_initializing");
  if (!PyModule_Check(module)) return false;
  PyObject* spec = PyDict_GetItemWithError(PyModule_GetDict(module), k_spec);
  if (!spec || spec == Py_None) return PyErr_Clear(), false;
  Owned<> flag = Owned<>::steal(PyObject_GetAttr(spec, k_flag));
  if (!flag) PyErr_Clear();
  return flag && flag.get() != Py_False && PyObject_IsTrue(flag.get()) > 0;
}

/// A new reference to the module, imported if it is not yet. The import system is called directly: the running frame
/// may have no `__import__`, as constructors of named tuples have none. Waits for an import on another thread. Null
/// with an exception if the import fails.
inline PyObject* import_module(const char* name) {
  Owned<> text = Owned<>::steal(PyUnicode_FromString(name));
  if (!text) return nullptr;
  PyObject* known = PyImport_GetModule(text.get());
  if (known ? !is_being_imported(known) : PyErr_Occurred() != nullptr) return known;
  Py_CLEAR(known);
  Owned<> package = Owned<>::steal(PyImport_ImportModuleLevel(name, nullptr, nullptr, nullptr, 0));
  if (package) known = PyImport_GetModule(text.get());
  if (package && !known) PyErr_Format(PyExc_ImportError, "%s is gone", name);
  return known;
}

/// An attribute of a module, which is imported if it is not yet.
inline Owned<> imported(const char* module, const char* name) {
  return take(PyObject_GetAttrString(take(import_module(module)).get(), name));
}
/// The same for a type, which is kept alive as long as the process.
inline PyTypeObject* imported_type(const char* module, const char* name) {
  return reinterpret_cast<PyTypeObject*>(imported(module, name).release());
}

}  // namespace gramme
