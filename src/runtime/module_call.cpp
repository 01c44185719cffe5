// The type behind gramme.OptimizedModule: a vectorcall that goes straight to the entry of the module's __call__ while
// no global hook is registered, and to Python otherwise.
#include "runtime/module_call.h"

#include <structmember.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/ref.h"
#include "base/type_dict.h"
#include "cpython/entries.h"
#include "runtime/entry.h"

namespace gramme::runtime {
namespace {

struct ModuleCall {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* entry;   // entry of the module class's __call__; null: every call goes to _call_slowly
  PyObject* module;  // its first argument
  PyObject* hooks;   // tuple of dicts: while one of them has an item, calls go to _call_slowly
};

ModuleCall* as_call(PyObject* object) { return reinterpret_cast<ModuleCall*>(object); }

bool has_hooks(PyObject* hooks) {
  PyObject** items = reinterpret_cast<PyTupleObject*>(hooks)->ob_item;
  return std::any_of(items, items + PyTuple_GET_SIZE(hooks), [](PyObject* dict) { return PyDict_GET_SIZE(dict) != 0; });
}

PyObject* call_slowly(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  static PyObject* const kName = PyUnicode_InternFromString("_call_slowly");
  auto slow = Owned<>::steal(PyObject_GetAttr(self, kName));
  return slow ? PyObject_Vectorcall(slow.get(), args, nargsf, kwnames) : nullptr;
}

/// entry(module, *args, **kwargs).
PyObject* call_entry(PyObject* entry, PyObject* module, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  const size_t nargs = static_cast<size_t>(PyVectorcall_NARGS(nargsf));
  if (nargsf & PY_VECTORCALL_ARGUMENTS_OFFSET) {  // the caller lends the place before the arguments
    PyObject** all = const_cast<PyObject**>(args) - 1;
    PyObject* lent = std::exchange(all[0], module);
    PyObject* result = PyObject_Vectorcall(entry, all, nargs + 1, kwnames);
    all[0] = lent;
    return result;
  }
  const size_t total = nargs + (kwnames ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0);
  std::array<PyObject*, 8> few;
  std::vector<PyObject*> many;
  PyObject** all = few.data();
  if (total + 1 > few.size()) {
    many.resize(total + 1);
    all = many.data();
  }
  all[0] = module;
  std::copy_n(args, total, all + 1);
  return PyObject_Vectorcall(entry, all, nargs + 1, kwnames);
}

PyObject* run(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  ModuleCall* call = as_call(self);
  if (!call->entry || has_hooks(call->hooks)) return call_slowly(self, args, nargsf, kwnames);
  auto entry = Owned<>::share(call->entry), module = Owned<>::share(call->module);
  return call_entry(entry.get(), module.get(), args, nargsf, kwnames);
}

/// tp_call: reached when a subclass's own __call__ calls super().__call__.
PyObject* call(PyObject* self, PyObject* args, PyObject* kwargs) {
  const auto positional = static_cast<size_t>(PyTuple_GET_SIZE(args));
  if (!kwargs || PyDict_GET_SIZE(kwargs) == 0)
    return run(self, reinterpret_cast<PyTupleObject*>(args)->ob_item, positional, nullptr);
  std::vector<PyObject*> all(reinterpret_cast<PyTupleObject*>(args)->ob_item,
                             reinterpret_cast<PyTupleObject*>(args)->ob_item + positional);
  auto names = Owned<>::steal(PyTuple_New(PyDict_GET_SIZE(kwargs)));
  if (!names) return nullptr;
  PyObject *name, *value;
  for (Py_ssize_t at = 0, i = 0; PyDict_Next(kwargs, &at, &name, &value); ++i) {
    PyTuple_SET_ITEM(names.get(), i, Py_NewRef(name));
    all.push_back(value);
  }
  return run(self, all.data(), positional, names.get());
}

PyObject* vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  if (Py_TYPE(self)->tp_call != call)  // the class was given its own __call__
    return cpython::call_by_type(self, args, PyVectorcall_NARGS(nargsf), kwnames);
  return run(self, args, nargsf, kwnames);
}

PyObject* make(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self) as_call(self)->vectorcall = vectorcall;
  return self;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  ModuleCall* call = as_call(self);
  Py_VISIT(call->entry);
  Py_VISIT(call->module);
  Py_VISIT(call->hooks);
  return 0;
}

int clear(PyObject* self) {
  ModuleCall* call = as_call(self);
  Py_CLEAR(call->entry);
  Py_CLEAR(call->module);
  Py_CLEAR(call->hooks);
  return 0;
}

void deallocate(PyObject* self) {
  PyObject_GC_UnTrack(self);
  clear(self);
  Py_TYPE(self)->tp_free(self);
}

bool all_dicts(PyObject* tuple) {
  PyObject** items = reinterpret_cast<PyTupleObject*>(tuple)->ob_item;
  return std::all_of(items, items + PyTuple_GET_SIZE(tuple), [](PyObject* item) { return PyDict_Check(item); });
}

PyObject* connect(PyObject* self, PyObject* args) {
  PyObject *entry, *module, *hooks;
  if (!PyArg_ParseTuple(args, "OOO!:_connect", &entry, &module, &PyTuple_Type, &hooks)) return nullptr;
  if ((entry != Py_None && !is_entry(entry)) || !all_dicts(hooks)) {
    PyErr_SetString(PyExc_TypeError, "_connect: expected an Entry or None, a module and a tuple of dicts");
    return nullptr;
  }
  ModuleCall* call = as_call(self);
  Py_XSETREF(call->entry, entry == Py_None ? nullptr : Py_NewRef(entry));
  Py_XSETREF(call->module, Py_NewRef(module));
  Py_XSETREF(call->hooks, Py_NewRef(hooks));
  Py_RETURN_NONE;
}

/// Sets vectorcall in subclasses: CPython 3.11 does not let classes made in Python inherit it, and each call would pack
/// a tuple.
PyObject* init_subclass(PyObject* cls, PyObject*, PyObject*) {
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  if (type->tp_call == call) type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
  Py_RETURN_NONE;
}

/// Sets `__call__` in the class's dict, for tools that follow calls in Python. Its own instances keep the fast path;
/// subclasses use it.
PyObject* tell_call(PyObject* cls, PyObject* function) {
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  if (PyDict_SetItemString(type_dict(type), "__call__", function) < 0) return nullptr;
  PyType_Modified(type);
  Py_RETURN_NONE;
}

PyMethodDef kMethods[] = {
    {"_tell_call", tell_call, METH_O | METH_CLASS, "_tell_call(function): what __call__ of the class is in Python."},
    {"_connect", connect, METH_VARARGS, "_connect(entry, module, hooks): what a call runs."},
    {"__init_subclass__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(init_subclass)),
     METH_VARARGS | METH_KEYWORDS | METH_CLASS, nullptr},
    {},
};

PyTypeObject make_type() {
  PyTypeObject type{PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "gramme._C.ModuleCall";
  type.tp_basicsize = sizeof(ModuleCall);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL;
  type.tp_vectorcall_offset = offsetof(ModuleCall, vectorcall);
  type.tp_call = call;
  type.tp_new = make;
  type.tp_dealloc = deallocate;
  type.tp_traverse = traverse;
  type.tp_clear = clear;
  type.tp_methods = kMethods;
  return type;
}

}  // namespace

PyTypeObject* module_call_type() {
  static PyTypeObject type = make_type();  // no Python: fields
  return (type.tp_flags & Py_TPFLAGS_READY) || PyType_Ready(&type) == 0 ? &type : nullptr;
}

}  // namespace gramme::runtime
