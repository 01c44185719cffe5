// Addresses of pointer fields inside objects: one function for each kind of source whose evidence is Field or Fixed.
// They return null if the base is not of the type they need.
#pragma once
#include "aten/classes.h"
#include "base/imported.h"
#include "base/once.h"
#include "cpython/iterators.h"
#include "cpython/lru_cache.h"
#include "cpython/objects.h"
#include "plan/walk.h"

namespace gramme::plan {

/// Types of C modules that gramme reads by layout.
struct KnownTypes {
  PyTypeObject* deque = imported_type("collections", "deque");
  PyTypeObject* defaultdict = imported_type("collections", "defaultdict");
  PyTypeObject* partial = imported_type("functools", "partial");
};
const KnownTypes& known_types();

template <source::Kind kind>
PyObject* const* field(const Step& step, PyObject* base) = delete;

#define FIELD(kind) \
  template <>       \
  inline PyObject* const* field<source::Kind::kind>([[maybe_unused]] const Step& step, PyObject* base)

FIELD(Slot) { return slot_of(base, step.key); }
FIELD(Mro) { return PyType_Check(base) ? &reinterpret_cast<PyTypeObject*>(base)->tp_mro : nullptr; }
FIELD(Contents) { return PyCell_Check(base) ? cpython::cell_address(base) : nullptr; }
FIELD(Globals) { return PyFunction_Check(base) ? &cpython::as_function(base)->func_globals : nullptr; }
FIELD(Builtins) { return PyFunction_Check(base) ? &cpython::as_function(base)->func_builtins : nullptr; }
FIELD(Defaults) { return PyFunction_Check(base) ? &cpython::as_function(base)->func_defaults : nullptr; }
FIELD(KwDefaults) { return PyFunction_Check(base) ? &cpython::as_function(base)->func_kwdefaults : nullptr; }

/// CPython makes this dict from the function's definition at the first request. Null here if that would run Python.
FIELD(Annotations) {
  if (!PyFunction_Check(base) || cpython::makes_annotations(base)) return nullptr;
  static PyObject* const name = intern("__annotations__");
  if (!Owned<>::steal(PyObject_GenericGetAttr(base, name))) PyErr_Clear();
  return &cpython::as_function(base)->func_annotations;
}

FIELD(MethodSelf) {
  static constexpr PyObject* kNoSelf = nullptr;
  if (PyMethod_Check(base)) return &reinterpret_cast<PyMethodObject*>(base)->im_self;
  if (!PyCFunction_Check(base)) return nullptr;
  return PyCFunction_GET_FLAGS(base) & METH_STATIC ? &kNoSelf : &reinterpret_cast<PyCFunctionObject*>(base)->m_self;
}
FIELD(MethodFunc) { return PyMethod_Check(base) ? &reinterpret_cast<PyMethodObject*>(base)->im_func : nullptr; }

FIELD(PartialFunc) {
  return PyObject_TypeCheck(base, known_types().partial) ? &cpython::as_partial(base)->func : nullptr;
}
FIELD(PartialArgs) {
  return PyObject_TypeCheck(base, known_types().partial) ? &cpython::as_partial(base)->args : nullptr;
}
FIELD(PartialKw) {
  return PyObject_TypeCheck(base, known_types().partial) ? &cpython::as_partial(base)->keywords : nullptr;
}
FIELD(DefaultFactory) {
  return PyObject_TypeCheck(base, known_types().defaultdict) ? cpython::default_factory_address(base) : nullptr;
}
FIELD(ProxyMapping) {
  return Py_IS_TYPE(base, &PyDictProxy_Type) ? &reinterpret_cast<cpython::layout::MappingProxy*>(base)->mapping
                                             : nullptr;
}
FIELD(IteratorOf) { return cpython::iterated_address(base); }
FIELD(Name) { return name_address(base, step.index); }
FIELD(CacheTable) {
  if (!cpython::is_lru_cache(base) || cpython::is_typed_cache(base) != (step.index != 0)) return nullptr;
  return cpython::cache_table_address(base);
}
FIELD(CacheResult) { return cpython::cached_result_address(base); }

#undef FIELD

}  // namespace gramme::plan
