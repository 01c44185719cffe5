// Instructions of match statements.
#include "base/ref.h"
#include "cpython/internal.h"
#include "cpython/steps.h"

namespace gramme::cpython {

Outcome match_mapping(Step& s) { return s.push(new_bool(Py_TYPE(s.frame.item())->tp_flags & Py_TPFLAGS_MAPPING)); }

Outcome match_sequence(Step& s) { return s.push(new_bool(Py_TYPE(s.frame.item())->tp_flags & Py_TPFLAGS_SEQUENCE)); }

#if GRAMME_PYTHON_EXPORTED_HELPERS
namespace {

PyObject* values_of_keys(Step& s, PyObject* map, PyObject* keys) { return _PyEval_MatchKeys(s.thread, map, keys); }

PyObject* match_attributes(Step& s, PyObject* subject, PyObject* type, int positional, PyObject* names) {
  return _PyEval_MatchClass(s.thread, subject, type, positional, names);
}

}  // namespace
#else
namespace {

/// Adds a key or name to `seen`; false if it is there already (no error set) or on error.
bool add_new(PyObject* seen, PyObject* item) {
  int known = PySet_Contains(seen, item);
  return known == 0 && PySet_Add(seen, item) == 0;
}

/// A tuple of the values of all keys; None if one is missing; null with an error set.
PyObject* values_of_keys(Step&, PyObject* map, PyObject* keys) {
  static PyObject* const get_name = intern("get");
  const Py_ssize_t count = PyTuple_GET_SIZE(keys);
  if (count == 0) return PyTuple_New(0);
  PyObject* method = nullptr;
  const bool unbound = _PyObject_GetMethod(map, get_name, &method);
  auto get = Owned<>::steal(method);
  if (!get) return nullptr;
  auto seen = Owned<>::steal(PySet_New(nullptr));
  auto missing = Owned<>::steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
  auto values = Owned<>::steal(PyTuple_New(count));
  if (!seen || !missing || !values) return nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys, i);
    if (!add_new(seen.get(), key)) {
      if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "mapping pattern checks duplicate key (%R)", key);
      return nullptr;
    }
    PyObject* args[] = {map, key, missing.get()};
    auto value = Owned<>::steal(PyObject_Vectorcall(get.get(), unbound ? args : args + 1, unbound ? 3 : 2, nullptr));
    if (!value) return nullptr;
    if (value == missing) return Py_NewRef(Py_None);
    PyTuple_SET_ITEM(values.get(), i, value.release());
  }
  return values.release();
}

/// The state of one class pattern.
struct ClassPattern {
  PyObject* subject;
  PyTypeObject* type;
  Owned<> seen, attributes;

  /// Appends the subject's attribute; false without an error if there is none.
  bool attribute(PyObject* name) {
    if (!add_new(seen.get(), name)) {
      if (!PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "%s() got multiple sub-patterns for attribute %R", type->tp_name, name);
      return false;
    }
    auto value = Owned<>::steal(PyObject_GetAttr(subject, name));
    if (value) return PyList_Append(attributes.get(), value.get()) == 0;
    if (PyErr_ExceptionMatches(PyExc_AttributeError)) PyErr_Clear();
    return false;
  }
  bool positional(int count);
};

/// The positional sub-patterns, by the type's __match_args__ or, for int, str and the like, the subject itself.
bool ClassPattern::positional(int count) {
  bool match_self = false;
  auto names = Owned<>::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__match_args__"));
  if (names && !PyTuple_CheckExact(names.get())) {
    PyErr_Format(PyExc_TypeError, "%s.__match_args__ must be a tuple (got %s)", type->tp_name,
                 Py_TYPE(names.get())->tp_name);
    return false;
  }
  if (!names) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return false;
    PyErr_Clear();
    match_self = PyType_HasFeature(type, _Py_TPFLAGS_MATCH_SELF);
  }
  const Py_ssize_t allowed = match_self ? 1 : names ? PyTuple_GET_SIZE(names.get()) : 0;
  if (allowed < count) {
    PyErr_Format(PyExc_TypeError, "%s() accepts %d positional sub-pattern%s (%d given)", type->tp_name,
                 static_cast<int>(allowed), allowed == 1 ? "" : "s", count);
    return false;
  }
  if (match_self) return PyList_Append(attributes.get(), subject) == 0;
  for (int i = 0; i < count; ++i) {
    PyObject* name = PyTuple_GET_ITEM(names.get(), i);
    if (!PyUnicode_CheckExact(name)) {
      PyErr_Format(PyExc_TypeError, "__match_args__ elements must be strings (got %s)", Py_TYPE(name)->tp_name);
      return false;
    }
    if (!attribute(name)) return false;
  }
  return true;
}

/// A tuple of the attributes; null with an error set, or without one if the subject does not match.
PyObject* match_attributes(Step&, PyObject* subject, PyObject* type, int positional, PyObject* names) {
  if (!PyType_Check(type)) {
    PyErr_Format(PyExc_TypeError, "called match pattern must be a %s", GRAMME_PYTHON_TEXTS == 11 ? "type" : "class");
    return nullptr;
  }
  if (PyObject_IsInstance(subject, type) <= 0) return nullptr;
  ClassPattern pattern{subject, reinterpret_cast<PyTypeObject*>(type), Owned<>::steal(PySet_New(nullptr)),
                       Owned<>::steal(PyList_New(0))};
  if (!pattern.seen || !pattern.attributes) return nullptr;
  if (positional && !pattern.positional(positional)) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i)
    if (!pattern.attribute(PyTuple_GET_ITEM(names, i))) return nullptr;
  return PyList_AsTuple(pattern.attributes.get());
}

}  // namespace
#endif

Outcome match_keys(Step& s) { return s.push(values_of_keys(s, s.frame.item(2), s.frame.item(1))); }

Outcome match_class(Step& s) {
  PyObject* attributes = match_attributes(s, s.frame.item(3), s.frame.item(2), s.arg, s.frame.item(1));
  if (!attributes && PyErr_Occurred()) return Outcome::Raised;
  return s.replace(3, attributes ? attributes : Py_NewRef(Py_None));
}

}  // namespace gramme::cpython
