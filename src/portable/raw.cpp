// Each step of a path in both directions: child() follows one, children() lists those possible.
#include "portable/raw.h"

#include <cstring>

#include "base/imported.h"
#include "base/once.h"
#include "base/type_dict.h"
#include "cpython/objects.h"

namespace gramme::portable {
namespace {

PyTypeObject* partial_type() {
  return once([] { return imported_type("functools", "partial"); });
}

/// The dict's value under a name; null if there is none.
PyObject* entry(PyObject* dict, const char* name) {
  const Owned<> key = Owned<>::steal(PyUnicode_InternFromString(name));
  PyObject* value = nullptr;
  return key && cpython::dict_lookup(dict, key.get(), &value) == cpython::Lookup::Found ? value : nullptr;
}

Owned<> attribute(PyObject* object, const std::string& name) {
  if (PyType_Check(object)) return share(entry(type_dict(object), name.c_str()));
  const Owned<> key = take(PyUnicode_InternFromString(name.c_str()));
  PyObject* value = nullptr;
  return cpython::instance_attribute(object, key.get(), &value) == cpython::Lookup::Found ? share(value) : Owned<>();
}

/// An attribute of an object of a builtin type, which is a C member.
Owned<> member(PyObject* object, const char* name) {
  Owned<> found = Owned<>::steal(PyObject_GetAttrString(object, name));
  if (!found) PyErr_Clear();
  return found;
}

Owned<> function_in(PyObject* object) {
  if (Py_IS_TYPE(object, &PyStaticMethod_Type) || Py_IS_TYPE(object, &PyClassMethod_Type))
    return member(object, "__func__");
  if (PyMethod_Check(object)) return share(PyMethod_GET_FUNCTION(object));
  return Py_IS_TYPE(object, partial_type()) ? share(cpython::as_partial(object)->func) : Owned<>();
}

Owned<> accessor(PyObject* object, int64_t index) {
  static constexpr const char* kNames[] = {"fget", "fset", "fdel"};
  const bool is_property = Py_IS_TYPE(object, &PyProperty_Type) && index >= 0 && index < 3;
  Owned<> found = is_property ? member(object, kNames[index]) : Owned<>();
  return found.get() == Py_None ? Owned<>() : found;
}

Owned<> in_cell(PyObject* object, int64_t index) {
  PyObject* closure = PyFunction_Check(object) ? cpython::as_function(object)->func_closure : nullptr;
  if (!closure || index < 0 || index >= PyTuple_GET_SIZE(closure)) return {};
  return share(*cpython::cell_address(PyTuple_GET_ITEM(closure, index)));
}

Owned<> constant(PyObject* object, int64_t index) {
  if (!PyCode_Check(object)) return {};
  PyObject* all = reinterpret_cast<PyCodeObject*>(object)->co_consts;
  if (index < 0 || index >= PyTuple_GET_SIZE(all) || !PyCode_Check(PyTuple_GET_ITEM(all, index))) return {};
  return share(PyTuple_GET_ITEM(all, index));
}

using Children = std::vector<std::pair<PathStep, Owned<>>>;

void add(Children& children, PathStep step, Owned<> child) {
  if (child) children.emplace_back(std::move(step), std::move(child));
}

/// Adds the dict's values with str keys.
void add_entries(Children& children, PyObject* dict, StepKind kind) {
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);)
    if (const std::string name = text_or_empty(key); !name.empty()) add(children, {kind, name}, share(value));
}

/// Adds the object's class if it is not the usual one: the class of a special module object, or a metaclass.
void add_class(Children& children, PyObject* object, PyTypeObject* usual) {
  if (!Py_IS_TYPE(object, usual)) add(children, {StepKind::Class}, child(object, {StepKind::Class}));
}

/// Adds functions and classes among an instance's own attributes.
void add_own(Children& children, PyObject* object) {
  for (auto& [step, value] : own_attributes(object))
    if (PyFunction_Check(value.get()) || PyType_Check(value.get())) add(children, std::move(step), std::move(value));
}

}  // namespace

std::vector<std::pair<PathStep, Owned<>>> own_attributes(PyObject* object) {
  Children all;
  if (!cpython::has_inline_values(object)) {
    if (PyObject* dict = cpython::instance_dict_if_any(object)) add_entries(all, dict, StepKind::Attr);
    return all;
  }
  for (Py_ssize_t i = 0; PyObject* key = cpython::shared_key_at(Py_TYPE(object), i); ++i)
    if (const std::string name = text_or_empty(key); !name.empty())
      add(all, {StepKind::Attr, name}, share(*cpython::inline_value_address(object, i)));
  return all;
}

PyObject* module_named(const std::string& name) {
  PyObject* module = entry(PyImport_GetModuleDict(), name.c_str());
  return module && PyModule_Check(module) ? module : nullptr;
}

Owned<> child(PyObject* object, const PathStep& step) {
  switch (step.kind) {
    case StepKind::Attr:
      return attribute(object, step.name);
    case StepKind::Class:
      return share(reinterpret_cast<PyObject*>(Py_TYPE(object)));
    case StepKind::Key:
      return PyDict_Check(object) ? share(entry(object, step.name.c_str())) : Owned<>();
    case StepKind::Function:
      return function_in(object);
    case StepKind::Accessor:
      return accessor(object, step.index);
    case StepKind::Cell:
      return in_cell(object, step.index);
    case StepKind::Code:
      return PyFunction_Check(object) ? share(cpython::as_function(object)->func_code) : Owned<>();
    case StepKind::Constant:
      return constant(object, step.index);
  }
  return {};
}

std::vector<std::pair<PathStep, Owned<>>> children(PyObject* object, const std::string& module) {
  Children all;
  if (PyModule_Check(object)) {
    add_entries(all, PyModule_GetDict(object), StepKind::Attr);
    add_class(all, object, &PyModule_Type);
    return all;
  }
  if (PyType_Check(object)) {
    if (module_of(object) == module) add_entries(all, type_dict(object), StepKind::Attr);
    add_class(all, object, &PyType_Type);
    return all;
  }
  if (PyCode_Check(object)) {
    for (int64_t i = 0; i < PyTuple_GET_SIZE(reinterpret_cast<PyCodeObject*>(object)->co_consts); ++i)
      add(all, {StepKind::Constant, "", i}, constant(object, i));
    return all;
  }
  add(all, {StepKind::Function}, function_in(object));
  for (int64_t i = 0; i < 3; ++i) add(all, {StepKind::Accessor, "", i}, accessor(object, i));
  if (PyFunction_Check(object)) {
    add(all, {StepKind::Code}, child(object, {StepKind::Code}));
    PyObject* closure = cpython::as_function(object)->func_closure;
    for (int64_t i = 0; closure && i < PyTuple_GET_SIZE(closure); ++i)
      add(all, {StepKind::Cell, "", i}, in_cell(object, i));
  }
  if (module_of(reinterpret_cast<PyObject*>(Py_TYPE(object))) == module) add_own(all, object);
  for (const char* name : {"__wrapped__", "func", "fget", "fset", "fdel"})  // held by wrappers and descriptors
    add(all, {StepKind::Attr, name}, PyDict_Check(object) ? Owned<>() : attribute(object, name));
  return all;
}

std::string text_or_empty(PyObject* text) {
  if (!text || !PyUnicode_Check(text)) return {};
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text, &size);
  if (!bytes) return PyErr_Clear(), std::string();
  return {bytes, static_cast<size_t>(size)};
}

std::string module_of(PyObject* object) {
  if (PyModule_Check(object)) return text_or_empty(entry(PyModule_GetDict(object), "__name__"));
  if (PyFunction_Check(object)) return text_or_empty(cpython::as_function(object)->func_module);
  if (PyCFunction_Check(object)) {
    auto* function = reinterpret_cast<PyCFunctionObject*>(object);
    PyObject* self = PyCFunction_GET_SELF(object);
    if (self && (PyType_Check(self) || PyModule_Check(self))) return module_of(self);
    return text_or_empty(function->m_module);
  }
  if (PyType_Check(object)) {
    auto* type = reinterpret_cast<PyTypeObject*>(object);
    const std::string own = text_or_empty(entry(type_dict(type), "__module__"));
    if (!own.empty()) return own;
    const char* dot = std::strrchr(type->tp_name, '.');
    return dot ? std::string(type->tp_name, dot) : "builtins";
  }
  PyTypeObject* type = Py_TYPE(object);
  const bool is_descriptor = type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type ||
                             type == &PyClassMethodDescr_Type || type == &PyGetSetDescr_Type ||
                             type == &PyMemberDescr_Type;
  if (is_descriptor) return module_of(reinterpret_cast<PyObject*>(PyDescr_TYPE(object)));
  return {};
}

}  // namespace gramme::portable
