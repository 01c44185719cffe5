// type.__new__ without its calls of __set_name__ (of the namespace's values) and __init_subclass__ (of the bases).
#include <cstring>

#include "base/error.h"
#include "base/imported.h"
#include "base/once.h"
#include "base/ref.h"
#include "base/type_dict.h"
#include "cpython/objects.h"

namespace gramme::cpython {

namespace {

/// A class with an __init_subclass__ that does nothing. It comes right after the new class in its MRO, before the
/// bases.
PyObject* silent_base() {
  PyObject* const made = once([] {
    Owned<> method = take(PyStaticMethod_New(reinterpret_cast<PyObject*>(&PyDict_Type)));
    Owned<> names = take(Py_BuildValue("{sO}", "__init_subclass__", method.get()));
    return take(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyType_Type), "s()O", "silent", names.get()))
        .release();
  });
  return made;
}

Owned<> plain_mro(PyObject* type) {
  return Owned<>::steal(PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyType_Type), "mro", "O", type));
}

PyObject* silent_mro(PyObject* type, PyObject*) {
  Owned<> mro = plain_mro(type);
  return mro && PyList_Insert(mro.get(), 1, silent_base()) == 0 ? mro.release() : nullptr;
}

/// A metaclass below `meta` whose classes have the silent base in their MRO.
Owned<> new_silent_meta(PyTypeObject* meta) {
  static PyMethodDef mro{"mro", &silent_mro, METH_NOARGS, nullptr};
  Owned<> made =
      Owned<>::steal(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyType_Type), "s(O){}", "silent", meta));
  if (!made) return made;
  auto* type = reinterpret_cast<PyTypeObject*>(made.get());
  Owned<> method = take(PyDescr_NewMethod(type, &mro));
  check(PyDict_SetItemString(type_dict(type), "mro", method.get()));
  PyType_Modified(type);
  return made;
}

Owned<> silent_meta(PyTypeObject* meta) {
  if (meta != &PyType_Type) return new_silent_meta(meta);
  return share(once([] { return new_silent_meta(&PyType_Type).release(); }));
}

/// True if the value has a __set_name__ in Python; those in C (of property) run no code of the program.
bool is_told_its_name(PyObject* value) {
  static PyObject* const name = intern("__set_name__");
  return Py_TYPE(value)->tp_flags & Py_TPFLAGS_HEAPTYPE && type_lookup(Py_TYPE(value), name) != nullptr;
}

/// The namespace with None in place of values with such a __set_name__.
Owned<> quiet_namespace(PyObject* names) {
  Owned<> quiet = take(PyDict_Copy(names));
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (PyDict_Next(names, &at, &key, &value))
    if (is_told_its_name(value)) check(PyDict_SetItem(quiet.get(), key, Py_None));
  return quiet;
}

bool put_told(PyTypeObject* type, PyObject* names) {
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (PyDict_Next(names, &at, &key, &value))
    if (is_told_its_name(value) && PyType_Type.tp_setattro(reinterpret_cast<PyObject*>(type), key, value) < 0)
      return false;
  return true;
}

/// A class made by a class statement, as a model of the slots that all such classes have.
PyTypeObject* model_class() {
  return once([] {
    return reinterpret_cast<PyTypeObject*>(
        take(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyType_Type), "s(){sOsO}", "model", "__new__", Py_None,
                                   "__init__", Py_None))
            .release());
  });
}

bool is_made_by_statement(PyTypeObject* type) {
  const PyTypeObject *model = model_class(), *base = type->tp_base;
  return type->tp_dealloc == model->tp_dealloc && (type->tp_new == model->tp_new || type->tp_new == base->tp_new) &&
         (type->tp_init == model->tp_init || type->tp_init == base->tp_init);
}

/// True for typing.Generic, which adds no state to instances; since 3.12 an extension module makes it.
bool is_generic(PyTypeObject* type) {
  const PyTypeObject* const generic = once([] { return imported_type("typing", "Generic"); });
  return type == generic;
}

/// True for CPython's own types, whose tp_name has no module; that of its C library's types has one.
bool is_of_interpreter(PyTypeObject* type) { return !std::strchr(type->tp_name, '.') || type == &PyODict_Type; }

}  // namespace

int is_abstract_subclass(PyObject* subclass, PyObject* cls) {
  PyObject* const check = once(
      [] { return take(PyObject_GetAttrString(imported("abc", "ABCMeta").get(), "__subclasscheck__")).release(); });
  Owned<> answer = Owned<>::steal(PyObject_CallFunctionObjArgs(check, cls, subclass, nullptr));
  return answer ? PyObject_IsTrue(answer.get()) : -1;
}

PyTypeObject* builtin_base(PyTypeObject* type) {
  for (; type->tp_flags & Py_TPFLAGS_HEAPTYPE; type = type->tp_base)
    if (!is_made_by_statement(type) && !is_generic(type)) return nullptr;
  return is_of_interpreter(type) ? type : nullptr;
}

PyObject* make_type(PyTypeObject* meta, PyObject* name, PyObject* bases, PyObject* names) {
  static PyObject* const own_mro = intern("mro");
  if (type_lookup(meta, own_mro) != type_lookup(&PyType_Type, own_mro) || Py_TYPE(meta) != &PyType_Type) {
    PyErr_SetString(PyExc_TypeError, "a metaclass with a metaclass or an mro() of its own");
    return nullptr;
  }
  Owned<> silent = silent_meta(meta), quiet = quiet_namespace(names);
  Owned<> args = silent ? Owned<>::steal(PyTuple_Pack(3, name, bases, quiet.get())) : Owned<>();
  if (!args) return nullptr;
  Owned<> made = Owned<>::steal(PyType_Type.tp_new(reinterpret_cast<PyTypeObject*>(silent.get()), args.get(), nullptr));
  Owned<> mro = made ? plain_mro(made.get()) : Owned<>();
  Owned<> order = mro ? Owned<>::steal(PyList_AsTuple(mro.get())) : Owned<>();
  if (!order) return nullptr;
  auto* type = reinterpret_cast<PyTypeObject*>(made.get());
  Owned<> before = Owned<>::steal(type->tp_mro);
  type->tp_mro = order.release();
  Owned<> silent_type = Owned<>::steal(reinterpret_cast<PyObject*>(Py_TYPE(type)));
  Py_SET_TYPE(type, reinterpret_cast<PyTypeObject*>(share(reinterpret_cast<PyObject*>(meta)).release()));
  PyType_Modified(type);
  return put_told(type, names) ? made.release() : nullptr;
}

}  // namespace gramme::cpython
