// The slots of gramme._C.Entry: vectorcall, descriptor, pickling, garbage collection, and the attributes that make it
// look like the function it wraps.
#include "runtime/entry.h"

#include <structmember.h>

#include <new>

#include "base/imported.h"
#include "cpython/features.h"
#include "runtime/call.h"

namespace gramme::runtime {
namespace {

struct Entry {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* dict;
  PyObject* weakrefs;
  PyFunctionObject* function;
  std::shared_ptr<Family> family;
};

Entry* as_entry(PyObject* object) { return reinterpret_cast<Entry*>(object); }

[[gnu::hot]] PyObject* vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  Entry* entry = as_entry(self);
  if (!entry->family)  // a finalizer calls an entry that the collector has cleared
    return PyObject_Vectorcall(reinterpret_cast<PyObject*>(entry->function), args, nargsf, kwnames);
  return call(entry->family, entry->function, args, nargsf, kwnames);
}

PyObject* bind_method(PyObject* self, PyObject* instance, PyObject*) {
  return instance && instance != Py_None ? PyMethod_New(self, instance) : Py_NewRef(self);
}

PyObject* repr(PyObject* self) { return PyUnicode_FromFormat("<gramme entry of %R>", as_entry(self)->function); }

/// By name, as functions are pickled and copied.
PyObject* reduce(PyObject* self, PyObject*) { return PyObject_GetAttrString(self, "__qualname__"); }

int traverse(PyObject* self, visitproc visit, void* arg) {
  Entry* entry = as_entry(self);
  Py_VISIT(entry->dict);
  Py_VISIT(entry->function);
  return entry->family && entry->family.use_count() == 1 ? entry->family->traverse(visit, arg) : 0;
}

int clear(PyObject* self) {
  Entry* entry = as_entry(self);
  Py_CLEAR(entry->dict);
  if (entry->family) entry->family->entry = nullptr;
  std::shared_ptr<Family>(std::move(entry->family)).reset();  // what it frees may look at the entry
  return 0;                                                   // the function stays to the end
}

/// Later entries may have the segments. The collector calls this before it clears anything, and then leaves alone what
/// the kept copies refer to; in clear() or deallocate() their graphs may be cleared already.
void finalize(PyObject* self) {
  const ErrorState pending;
  if (Family* family = as_entry(self)->family.get()) family->retire();
}

void deallocate(PyObject* self) {
  Entry* entry = as_entry(self);
  if (PyObject_CallFinalizerFromDealloc(self) < 0) return;  // resurrected
  PyObject_GC_UnTrack(self);
  if (entry->weakrefs) PyObject_ClearWeakRefs(self);
  clear(self);
  Py_CLEAR(entry->function);
  entry->family.~shared_ptr();
  PyObject_GC_Del(self);
}

PyMethodDef kMethods[] = {
    {"__reduce__", reduce, METH_NOARGS, "The qualified name: entries are pickled and copied as functions are."},
    {},
};
/// The function attributes by which inspect recognises functions and coroutine functions.
template <size_t name>
PyObject* of_function(PyObject* self, void*) {
  static constexpr const char* kNames[] = {"__code__", "__defaults__", "__kwdefaults__"};
  return PyObject_GetAttrString(reinterpret_cast<PyObject*>(as_entry(self)->function), kNames[name]);
}

#if GRAMME_PYTHON_ANNOTATE
/// A getter, because functools.update_wrapper copies what annotations are computed from; functions compute them on
/// demand.
PyObject* annotations(PyObject* self, void*) {
  static PyObject* const name = intern("__annotations__");
  PyObject* own = as_entry(self)->dict ? PyDict_GetItemWithError(as_entry(self)->dict, name) : nullptr;
  if (own || PyErr_Occurred()) return Py_XNewRef(own);
  return PyObject_GetAttr(reinterpret_cast<PyObject*>(as_entry(self)->function), name);
}

int set_annotations(PyObject* self, PyObject* given, void*) {
  static PyObject* const name = intern("__annotations__");
  auto names = Owned<>::steal(PyObject_GenericGetDict(self, nullptr));
  if (!names) return -1;
  return given ? PyDict_SetItem(names.get(), name, given) : PyDict_DelItem(names.get(), name);
}
#endif

PyGetSetDef kGetSets[] = {
#if GRAMME_PYTHON_ANNOTATE
    {"__annotations__", annotations, set_annotations, nullptr, nullptr},
#endif
    {"__code__", of_function<0>, nullptr, nullptr, nullptr},
    {"__defaults__", of_function<1>, nullptr, nullptr, nullptr},
    {"__kwdefaults__", of_function<2>, nullptr, nullptr, nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {},
};

PyTypeObject make_type() {
  PyTypeObject type{PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "gramme._C.Entry";
  type.tp_basicsize = sizeof(Entry);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR |
                  Py_TPFLAGS_DISALLOW_INSTANTIATION;
  type.tp_vectorcall_offset = offsetof(Entry, vectorcall);
  type.tp_call = PyVectorcall_Call;
  type.tp_dictoffset = offsetof(Entry, dict);
  type.tp_weaklistoffset = offsetof(Entry, weakrefs);
  type.tp_dealloc = deallocate;
  type.tp_traverse = traverse;
  type.tp_clear = clear;
  type.tp_finalize = finalize;
  type.tp_repr = repr;
  type.tp_descr_get = bind_method;
  type.tp_methods = kMethods;
  type.tp_getset = kGetSets;
  return type;
}

bool copy_wrapper_attributes(PyObject* entry, PyObject* function) {
  auto functools = Owned<>::steal(import_module("functools"));
  if (!functools) return false;
  return static_cast<bool>(
      Owned<>::steal(PyObject_CallMethod(functools.get(), "update_wrapper", "OO", entry, function)));
}

}  // namespace

PyTypeObject* entry_type() {
  static PyTypeObject type = make_type();  // no Python: fields
  return (type.tp_flags & Py_TPFLAGS_READY) || PyType_Ready(&type) == 0 ? &type : nullptr;
}

PyObject* make_entry(PyFunctionObject* function, std::shared_ptr<Capturer> capturer) {
  PyTypeObject* type = entry_type();
  Entry* entry = type ? PyObject_GC_New(Entry, type) : nullptr;
  if (!entry) return nullptr;
  entry->vectorcall = vectorcall;
  entry->dict = nullptr;
  entry->weakrefs = nullptr;
  entry->function = Owned<PyFunctionObject>::share(function).release();
  new (&entry->family) std::shared_ptr<Family>(std::make_shared<Family>(std::move(capturer)));
  auto made = Owned<>::steal(reinterpret_cast<PyObject*>(entry));
  entry->family->entry = made.get();
  PyObject_GC_Track(entry);
  if (!copy_wrapper_attributes(made.get(), reinterpret_cast<PyObject*>(function))) return nullptr;
  return made.release();
}

bool is_entry(PyObject* object) { return Py_IS_TYPE(object, entry_type()); }
const std::shared_ptr<Family>& family_of(PyObject* entry) { return as_entry(entry)->family; }
PyFunctionObject* function_of(PyObject* entry) { return as_entry(entry)->function; }

}  // namespace gramme::runtime
