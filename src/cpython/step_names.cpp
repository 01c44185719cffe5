// Instructions for globals, names in namespaces, and imports.
#include "base/imported.h"
#include "cpython/internal.h"
#include "cpython/steps.h"

namespace gramme::cpython {

void set_name_error(PyObject* type, const char* format, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (!text) return;
  PyErr_Format(type, format, text);
  if (type != PyExc_NameError) return;
  const Owned<> error = take_exception();
  if (PyErr_GivenExceptionMatches(error.get(), PyExc_NameError) &&
      !reinterpret_cast<PyNameErrorObject*>(error.get())->name)
    static_cast<void>(PyObject_SetAttrString(error.get(), "name", name));  // an error here is replaced
  set_exception(error.get());
}

void set_unbound_error(const Step& s, int slot) {
  if (slot < s.frame.local_count() - s.frame.code()->co_nfreevars)
    set_name_error(PyExc_UnboundLocalError, kUnboundLocal, s.local_name(slot));
  else
    set_name_error(PyExc_NameError, kUnboundFree, s.local_name(slot));
}

PyObject* get_item_if_any(PyObject* mapping, PyObject* key) {
  if (PyDict_CheckExact(mapping)) return Py_XNewRef(PyDict_GetItemWithError(mapping, key));
  PyObject* value = PyObject_GetItem(mapping, key);
  if (!value && PyErr_ExceptionMatches(PyExc_KeyError)) PyErr_Clear();
  return value;
}

#if GRAMME_PYTHON_LAZY_IMPORTS
/// CPython's own look-up replaces a lazily imported name by the module.
PyObject* global_or_builtin(Step& s, PyObject* name) {
  Slot::Word value = Slot::own(nullptr);
  _PyEval_LoadGlobalStackRef(s.frame.globals(), s.frame.builtins(), name, &value);
  return Slot::kind(value) == SlotKind::Owned ? Slot::read(value) : Py_XNewRef(Slot::read(value));
}
#else
PyObject* global_or_builtin(Step& s, PyObject* name) {
  PyObject* value = get_item_if_any(s.frame.globals(), name);
  if (!value && !PyErr_Occurred()) value = get_item_if_any(s.frame.builtins(), name);
  if (!value && !PyErr_Occurred()) set_name_error(PyExc_NameError, kNameError, name);
  return value;
}
#endif

namespace {

/// The frame's namespace; null with SystemError set.
PyObject* namespace_or_error(Step& s, const char* doing, PyObject* name) {
  PyObject* names = s.frame.namespace_object();
  if (!names) PyErr_Format(PyExc_SystemError, doing, name);
  return names;
}

}  // namespace

Outcome load_global(Step& s) {
  PyObject* value = global_or_builtin(s, s.name(s.arg >> 1));
  if (!value || !(s.arg & 1)) return s.push(value);
  s.push_callable(value);
  return Outcome::Next;
}

Outcome store_global(Step& s) { return s.dropped(1, PyDict_SetItem(s.frame.globals(), s.name(s.arg), s.frame.item())); }

Outcome delete_global(Step& s) {
  PyObject* name = s.name(s.arg);
  if (PyDict_DelItem(s.frame.globals(), name) == 0) return Outcome::Next;
  if (PyErr_ExceptionMatches(PyExc_KeyError)) set_name_error(PyExc_NameError, kNameError, name);
  return Outcome::Raised;
}

#if GRAMME_PYTHON_LAZY_IMPORTS
Outcome load_name(Step& s) { return s.push(_PyEval_LoadName(s.thread, s.frame.raw(), s.name(s.arg))); }
#else
Outcome load_name(Step& s) {
  PyObject* name = s.name(s.arg);
  PyObject* names = namespace_or_error(s, "no locals when loading %R", name);
  if (!names) return Outcome::Raised;
  PyObject* value = get_item_if_any(names, name);
  if (!value && !PyErr_Occurred()) value = global_or_builtin(s, name);
  return s.push(value);
}
#endif

Outcome load_locals(Step& s) {
  PyObject* names = s.frame.namespace_object();
  if (!names) PyErr_SetString(PyExc_SystemError, "no locals");
  return s.push(Py_XNewRef(names));
}

Outcome load_from_dict_or_globals(Step& s) {
  PyObject* value = get_item_if_any(s.frame.item(), s.name(s.arg));
  if (!value && !PyErr_Occurred()) value = global_or_builtin(s, s.name(s.arg));
  return s.replace(1, value);
}

Outcome store_name(Step& s) {
  PyObject* name = s.name(s.arg);
  PyObject* names = namespace_or_error(s, "no locals found when storing %R", name);
  if (!names) return Outcome::Raised;
  PyObject* value = s.frame.item();
  bool plain = PyDict_CheckExact(names);
  return s.dropped(1, plain ? PyDict_SetItem(names, name, value) : PyObject_SetItem(names, name, value));
}

Outcome delete_name(Step& s) {
  PyObject* name = s.name(s.arg);
  PyObject* names = namespace_or_error(s, "no locals when deleting %R", name);
  if (!names) return Outcome::Raised;
  if (PyObject_DelItem(names, name) == 0) return Outcome::Next;
  set_name_error(PyExc_NameError, kNameError, name);
  return Outcome::Raised;
}

Outcome setup_annotations(Step& s) {
  static PyObject* const name = intern("__annotations__");
  PyObject* names = s.frame.namespace_object();
  if (!names) {
    PyErr_SetString(PyExc_SystemError, "no locals found when setting up annotations");
    return Outcome::Raised;
  }
  auto known = Owned<>::steal(get_item_if_any(names, name));
  if (known) return Outcome::Next;
  if (PyErr_Occurred()) return Outcome::Raised;
  auto made = Owned<>::steal(PyDict_New());
  return made ? s.dropped(0, PyObject_SetItem(names, name, made.get())) : Outcome::Raised;
}

Outcome load_build_class(Step& s) {
  static PyObject* const name = intern("__build_class__");
  PyObject* value = get_item_if_any(s.frame.builtins(), name);
  if (!value && !PyErr_Occurred()) PyErr_SetString(PyExc_NameError, "__build_class__ not found");
  return s.push(value);
}

Outcome import_name(Step& s) {
  if (GRAMME_PYTHON_LAZY_IMPORTS) return Outcome::HandOver;
  static PyObject* const name = intern("__import__");
  auto import = Owned<>::share(PyDict_GetItemWithError(s.frame.builtins(), name));
  if (!import) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ImportError, "__import__ not found");
    return Outcome::Raised;
  }
  PyObject* names = s.frame.namespace_object();
  PyObject* args[] = {s.name(s.arg), s.frame.globals(), names ? names : Py_None, s.frame.item(1), s.frame.item(2)};
  return s.replace(2, PyObject_Vectorcall(import.get(), args, 5, nullptr));
}

#if GRAMME_PYTHON_EXPORTED_NAMES
Outcome import_from(Step& s) {
  if (GRAMME_PYTHON_LAZY_IMPORTS) return Outcome::HandOver;
  return s.push(_PyEval_ImportFrom(s.thread, s.frame.item(), s.name(s.arg)));
}
#else
namespace {

void set_import_from_error(PyObject* module, PyObject* name, PyObject* package) {
  Owned<> shown = package ? share(package) : Owned<>::steal(PyUnicode_FromString("<unknown module name>"));
  if (!shown) return;
  auto path = Owned<>::steal(PyModule_GetFilenameObject(module));
  if (!path) PyErr_Clear();
  Owned<> message;
  if (!path || !PyUnicode_Check(path.get()))
    message =
        Owned<>::steal(PyUnicode_FromFormat("cannot import name %R from %R (unknown location)", name, shown.get()));
  else
    message = Owned<>::steal(PyUnicode_FromFormat(is_being_imported(module)
                                                      ? "cannot import name %R from partially initialized module %R "
                                                        "(most likely due to a circular import) (%S)"
                                                      : "cannot import name %R from %R (%S)",
                                                  name, shown.get(), path.get()));
  PyErr_SetImportError(message.get(), package, path.get());
}

/// The module's attribute, or a submodule that a circular import has not stored there yet.
PyObject* imported_from(PyObject* module, PyObject* name) {
  PyObject* value = PyObject_GetAttr(module, name);
  if (value || !PyErr_ExceptionMatches(PyExc_AttributeError)) return value;
  PyErr_Clear();
  auto package = Owned<>::steal(PyObject_GetAttrString(module, "__name__"));
  if (package && !PyUnicode_Check(package.get())) package = {};
  if (package) {
    auto full_name = Owned<>::steal(PyUnicode_FromFormat("%U.%U", package.get(), name));
    if (!full_name) return nullptr;
    value = PyImport_GetModule(full_name.get());
    if (value || PyErr_Occurred()) return value;
  }
  set_import_from_error(module, name, package.get());
  return nullptr;
}

}  // namespace

Outcome import_from(Step& s) { return s.push(imported_from(s.frame.item(), s.name(s.arg))); }
#endif

}  // namespace gramme::cpython
