// Recognises bound C functions (builtin methods and slot wrappers) and binds them again.
#include "portable/bound.h"

#include "base/once.h"
#include "cpython/objects.h"

namespace gramme::portable {
namespace {

/// The type of bound slot wrappers such as (1).__add__.
PyTypeObject* wrapper_type() {
  return once([] { return Py_TYPE(take(PyObject_GetAttrString(Py_None, "__str__")).get()); });
}

bool is_slot(PyObject* object) { return Py_IS_TYPE(object, wrapper_type()); }

/// The type's descriptor, if it is of a C function; else null.
PyObject* descriptor_of(PyTypeObject* type, PyObject* name) {
  PyObject* found = cpython::type_lookup(type, name);
  if (!found) return nullptr;
  PyTypeObject* of = Py_TYPE(found);
  const bool is_of_c = of == &PyMethodDescr_Type || of == &PyWrapperDescr_Type || of == &PyClassMethodDescr_Type;
  return is_of_c ? found : nullptr;
}

}  // namespace

std::pair<Owned<>, std::string> bound_parts(PyObject* function) {
  if (PyCFunction_Check(function)) {
    PyObject* self = PyCFunction_GET_SELF(function);
    if (!self || PyModule_Check(self)) return {};
    return {share(self), reinterpret_cast<PyCFunctionObject*>(function)->m_ml->ml_name};
  }
  if (!is_slot(function)) return {};
  const Owned<> name = take(PyObject_GetAttrString(function, "__name__"));
  const char* text = PyUnicode_AsUTF8(name.get());
  if (!text) throw PythonError();
  return {take(PyObject_GetAttrString(function, "__self__")), text};
}

Owned<> bind_again(PyObject* self, const std::string& name) {
  const Owned<> key = take(PyUnicode_InternFromString(name.c_str()));
  if (PyType_Check(self)) {
    auto* type = reinterpret_cast<PyTypeObject*>(self);
    PyObject* own = descriptor_of(type, key.get());
    if (own && Py_IS_TYPE(own, &PyClassMethodDescr_Type)) return take(Py_TYPE(own)->tp_descr_get(own, nullptr, self));
    PyObject* raw = cpython::type_lookup(type, key.get());
    if (raw && PyCFunction_Check(raw)) return share(raw);  // __new__, which a class holds as a bound function
  }
  PyObject* found = descriptor_of(Py_TYPE(self), key.get());
  if (!found || Py_IS_TYPE(found, &PyClassMethodDescr_Type)) return {};
  return take(Py_TYPE(found)->tp_descr_get(found, self, reinterpret_cast<PyObject*>(Py_TYPE(self))));
}

bool is_same_bound(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (!Py_IS_TYPE(b, Py_TYPE(a))) return false;
  const auto one = bound_parts(a), other = bound_parts(b);
  if (!one.first || one.first.get() != other.first.get() || one.second != other.second) return false;
  return !PyCFunction_Check(a) ||
         reinterpret_cast<PyCFunctionObject*>(a)->m_ml == reinterpret_cast<PyCFunctionObject*>(b)->m_ml;
}

}  // namespace gramme::portable
