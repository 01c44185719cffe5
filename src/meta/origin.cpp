// Looks at modules, closures and bound objects of a callable, a few levels deep.
#include "meta/origin.h"

#include "base/imported.h"
#include "base/once.h"
#include "base/type_dict.h"
#include "torch/names.h"

namespace gramme::meta {
namespace {

bool is_type_of_pytorch(PyTypeObject* type) {
  static PyObject* const key = intern("__module__");
  return !(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || package_of(type_dict(type), key) == "torch";
}

/// True for pybind11's function record, to which all functions it makes are bound.
bool is_record_of_pybind(PyObject* self) {
  static constexpr std::string_view kName = "pybind11_builtins.pybind11_detail_function_record";
  return std::string_view(Py_TYPE(self)->tp_name).starts_with(kName);
}

std::string_view first_part(PyObject* module) {
  const char* name = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : nullptr;
  if (!name) PyErr_Clear();  // lone surrogates
  const std::string_view all = name ? name : "";
  return all.substr(0, all.find('.'));
}

/// The module of a Python function; empty for others.
std::string_view module_of_function(PyObject* callable) {
  static PyObject* const key = intern("__name__");
  if (!PyFunction_Check(callable)) return {};
  PyObject* name = PyDict_GetItemWithError(PyFunction_GET_GLOBALS(callable), key);
  const char* module = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  if (!module) PyErr_Clear();  // lone surrogates
  return module ? module : std::string_view();
}

constexpr int kDeepest = 8;

bool is_of_pytorch(PyObject* object, int depth);

bool holds_pytorch_alone(PyObject* function, int depth) {
  PyObject* cells = PyFunction_GET_CLOSURE(function);
  for (Py_ssize_t i = 0; cells && i < PyTuple_GET_SIZE(cells); ++i) {
    PyObject* content = PyCell_GET(PyTuple_GET_ITEM(cells, i));
    if (content && !is_of_pytorch(content, depth + 1)) return false;
  }
  return true;
}

bool is_of_pytorch(PyObject* object, int depth) {
  static PyObject* const key = intern("__name__");
  if (depth > kDeepest) return false;
  if (PyFunction_Check(object))
    return package_of(PyFunction_GET_GLOBALS(object), key) == "torch" && holds_pytorch_alone(object, depth);
  if (PyMethod_Check(object))
    return is_of_pytorch(PyMethod_GET_FUNCTION(object), depth + 1) &&
           is_of_pytorch(PyMethod_GET_SELF(object), depth + 1);
  if (PyType_Check(object)) return is_type_of_pytorch(reinterpret_cast<PyTypeObject*>(object));
  if (PyCFunction_Check(object)) {
    PyObject* self = PyCFunction_GET_SELF(object);
    if (!self || PyModule_Check(self)) return true;
    if (is_record_of_pybind(self)) return first_part(reinterpret_cast<PyCFunctionObject*>(object)->m_module) == "torch";
    return is_type_of_pytorch(PyType_Check(self) ? reinterpret_cast<PyTypeObject*>(self) : Py_TYPE(self));
  }
  if (Py_IS_TYPE(object, &PyMethodDescr_Type) || Py_IS_TYPE(object, &PyWrapperDescr_Type))
    return is_type_of_pytorch(PyDescr_TYPE(object));
  const bool plain = object == Py_None || PyBool_Check(object) || PyLong_CheckExact(object) ||
                     PyFloat_CheckExact(object) || PyUnicode_CheckExact(object);
  return plain || is_operator(object);
}

}  // namespace

std::string_view package_of(PyObject* names, PyObject* key) {
  return first_part(names && PyDict_Check(names) ? PyDict_GetItemWithError(names, key) : nullptr);
}

std::string name_of(const Call& call) {
  const bool method = call.kind == Call::Method;
  Owned<> name = method ? share(call.target) : Owned<>::steal(PyObject_GetAttrString(call.target, "__name__"));
  const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
  if (!text) PyErr_Clear();
  return text ? text : "";
}

bool is_operator(PyObject* object) {
  PyTypeObject* const overload = of_torch::type(of_torch::OpOverload);
  PyTypeObject* const packet = of_torch::type(of_torch::OpOverloadPacket);
  return PyObject_TypeCheck(object, overload) || PyObject_TypeCheck(object, packet);
}

bool is_of_pytorch(PyObject* callable) { return is_of_pytorch(callable, 0) || is_of_numpy(callable); }

bool is_of_numpy(PyObject* callable) { return module_of_function(callable).starts_with("gramme._numpy"); }

bool calls_numpy(PyObject* callable) { return module_of_function(callable) == "gramme._numpy._exact"; }

bool is_of_program(const Call& call) { return call.kind == Call::Function && !is_of_pytorch(call.target); }

}  // namespace gramme::meta
