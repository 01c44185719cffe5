// type.__new__ without the calls it makes: __set_name__ of what is in the namespace, __init_subclass__ of the bases.
#include "base/error.h"
#include "base/ref.h"
#include "cpython/objects.h"

namespace gramme::cpython {

namespace {

/// Does nothing in place of the bases' __init_subclass__: it stands right behind the new class in its MRO.
PyObject* silent_base() {
  static PyObject* made = [] {
    Owned<> method = take(PyStaticMethod_New(reinterpret_cast<PyObject*>(&PyDict_Type)));
    Owned<> names = take(Py_BuildValue("{sO}", "__init_subclass__", method.get()));
    return take(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyType_Type), "s()O", "silent", names.get()))
        .release();
  }();
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
Owned<> silent_meta(PyTypeObject* meta) {
  static PyMethodDef mro{"mro", &silent_mro, METH_NOARGS, nullptr};
  auto make = [](PyTypeObject* base) {
    Owned<> made =
        Owned<>::steal(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyType_Type), "s(O){}", "silent", base));
    if (!made) return made;
    auto* type = reinterpret_cast<PyTypeObject*>(made.get());
    Owned<> method = take(PyDescr_NewMethod(type, &mro));
    check(PyDict_SetItemString(type->tp_dict, "mro", method.get()));
    PyType_Modified(type);
    return made;
  };
  static PyObject* plain = make(&PyType_Type).release();
  return meta == &PyType_Type ? share(plain) : make(meta);
}

/// By a hook in Python; those in C (of property) run no code of the program.
bool is_told_its_name(PyObject* value) {
  static PyObject* const name = intern("__set_name__");
  return Py_TYPE(value)->tp_flags & Py_TPFLAGS_HEAPTYPE && type_lookup(Py_TYPE(value), name) != nullptr;
}

/// The namespace with None in place of what would be told its name.
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

}  // namespace

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
