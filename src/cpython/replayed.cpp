// The functions read their arguments without checks, since only replay calls them.
#include "cpython/replayed.h"

#include <frameobject.h>

#include "base/once.h"
#include "cpython/generator_image.h"
#include "cpython/internal.h"
#include "cpython/iterators.h"
#include "cpython/objects.h"

namespace gramme::cpython {

namespace {

/// Makes a generator as genobject.c does, but without a frame yet.
PyObject* make_generator(PyObject*, PyObject* function_object) {
  auto* function = reinterpret_cast<PyFunctionObject*>(function_object);
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  PyGenObject* made = PyObject_GC_NewVar(PyGenObject, &PyGen_Type, code->co_nlocalsplus + code->co_stacksize);
  if (!made) return nullptr;
  made->gi_weakreflist = nullptr;
  made->gi_name = Py_NewRef(function->func_name);
  made->gi_qualname = Py_NewRef(function->func_qualname);
  made->gi_exc_state.exc_value = nullptr;
  made->gi_exc_state.previous_item = nullptr;
  made->gi_origin_or_finalizer = nullptr;
  made->gi_hooks_inited = made->gi_closed = made->gi_running_async = 0;
  made->gi_frame_state = FRAME_CLEARED;
  auto* object = reinterpret_cast<PyObject*>(made);
#if GRAMME_PYTHON_GENERATOR_CODE
  made->gi_code = reinterpret_cast<PyCodeObject*>(Py_NewRef(code));
#else
  frame_of(object).set_code(code);
#endif
  PyObject_GC_Track(made);
  return object;
}

PyObject* make_frame(PyObject*, PyObject* function_object) {
  auto* function = reinterpret_cast<PyFunctionObject*>(function_object);
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  PyFrameObject* made = PyFrame_New(PyThreadState_Get(), code, function->func_globals, nullptr);
  if (made) FrameImage(made->f_frame).set_function(function);
  return reinterpret_cast<PyObject*>(made);
}

/// Fills locals and stack of a new frame, whose slots may be uninitialised and must not be dropped.
void put(FrameImage frame, PyObject* places, PyObject* args, Py_ssize_t from) {
  const auto count = static_cast<int>(PyBytes_GET_SIZE(places));
  for (int i = 0; i < count; ++i) {
    PyObject* value = PyBytes_AS_STRING(places)[i] ? Py_NewRef(PyTuple_GET_ITEM(args, from++)) : nullptr;
    if (i < frame.local_count())
      frame.exchange_local(i, value);
    else
      frame.push(value);
  }
}

PyObject* fill(PyObject*, PyObject* args) {
  PyObject* target = PyTuple_GET_ITEM(args, 0);
  const bool begun = PyLong_AsLong(PyTuple_GET_ITEM(args, 2)) == -1;
  auto unit = static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(args, 3)));
  PyObject* places = PyTuple_GET_ITEM(args, 4);
  constexpr Py_ssize_t kFirst = 5;
  if (!PyGen_CheckExact(target)) {
    const FrameImage frame(reinterpret_cast<PyFrameObject*>(target)->f_frame);
    put(frame, places, args, kFirst);
    frame.set_current(unit);
    Py_RETURN_NONE;
  }
  const FrameImage frame = frame_of(target);
  frame.begin(reinterpret_cast<PyFunctionObject*>(PyTuple_GET_ITEM(args, 1)), code_of_generator(target));
  put(frame, places, args, kFirst);
  frame.set_next(unit + 1);
  if (begun)
    set_suspended(frame);
  else
    as_generator(target)->gi_frame_state = FRAME_CREATED;
  Py_RETURN_NONE;
}

PyObject* set_hashed(PyObject*, PyObject* args) {
  Py_hash_t hash = PyLong_AsSsize_t(PyTuple_GET_ITEM(args, 2));
  PyObject* dict = PyTuple_GET_ITEM(args, 0);
  if (_PyDict_SetItem_KnownHash(dict, PyTuple_GET_ITEM(args, 1), PyTuple_GET_ITEM(args, 3), hash) < 0) return nullptr;
  Py_RETURN_NONE;
}

PyObject* delete_hashed(PyObject*, PyObject* args) {
  Py_hash_t hash = PyLong_AsSsize_t(PyTuple_GET_ITEM(args, 2));
  if (_PyDict_DelItem_KnownHash(PyTuple_GET_ITEM(args, 0), PyTuple_GET_ITEM(args, 1), hash) < 0) return nullptr;
  Py_RETURN_NONE;
}

PyObject* move_iterator(PyObject*, PyObject* args) {
  PyObject* iterator = PyTuple_GET_ITEM(args, 0);
  Py_ssize_t position = PyLong_AsSsize_t(PyTuple_GET_ITEM(args, 1));
  if (position >= 0)
    *list_iterator_position(iterator) = position;
  else
    end_list_iterator(iterator);
  Py_RETURN_NONE;
}

PyObject* advance(PyObject*, PyObject* args) {
  const Py_ssize_t count = PyLong_AsSsize_t(PyTuple_GET_ITEM(args, 1));
  if (!advance_iterator(PyTuple_GET_ITEM(args, 0), count, PyTuple_GET_ITEM(args, 2) == Py_True)) return nullptr;
  Py_RETURN_NONE;
}

// ---- iterables

struct Iterable {
  PyObject_HEAD PyObject* iterator;
};

PyObject* new_iterable(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* made = type->tp_alloc(type, 0);
  if (made) reinterpret_cast<Iterable*>(made)->iterator = Py_NewRef(PyTuple_GET_ITEM(args, 0));
  return made;
}

PyObject* iterator_of(PyObject* self) { return Py_NewRef(reinterpret_cast<Iterable*>(self)->iterator); }

void free_iterable(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_DECREF(reinterpret_cast<Iterable*>(self)->iterator);
  type->tp_free(self);
  Py_DECREF(type);
}

PyType_Slot iterable_slots[] = {{Py_tp_new, reinterpret_cast<void*>(new_iterable)},
                                {Py_tp_iter, reinterpret_cast<void*>(iterator_of)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(free_iterable)},
                                {0, nullptr}};
PyType_Spec iterable_spec{"gramme.Iterable", sizeof(Iterable), 0, Py_TPFLAGS_DEFAULT, iterable_slots};

PyObject* function(PyMethodDef& definition) {
  PyObject* made = PyCFunction_New(&definition, nullptr);
  if (!made) Py_FatalError("gramme: out of memory");
  return made;
}

PyMethodDef maker_definition{"make_generator", make_generator, METH_O, nullptr};
PyMethodDef frame_definition{"make_frame", make_frame, METH_O, nullptr};
PyMethodDef setter_definition{"set_hashed", set_hashed, METH_VARARGS, nullptr};
PyMethodDef deleter_definition{"delete_hashed", delete_hashed, METH_VARARGS, nullptr};
PyMethodDef mover_definition{"move_iterator", move_iterator, METH_VARARGS, nullptr};
PyMethodDef advancer_definition{"advance_iterator", advance, METH_VARARGS, nullptr};
PyMethodDef filler_definition{"fill_frame", fill, METH_VARARGS, nullptr};

}  // namespace

PyObject* generator_maker() {
  PyObject* const made = once([] { return function(maker_definition); });
  return made;
}
PyObject* frame_maker() {
  PyObject* const made = once([] { return function(frame_definition); });
  return made;
}
PyObject* frame_filler() {
  PyObject* const made = once([] { return function(filler_definition); });
  return made;
}

PyObject* hashed_setter() {
  PyObject* const made = once([] { return function(setter_definition); });
  return made;
}

PyObject* hashed_deleter() {
  PyObject* const made = once([] { return function(deleter_definition); });
  return made;
}

PyObject* iterator_mover() {
  PyObject* const made = once([] { return function(mover_definition); });
  return made;
}

PyObject* iterator_advancer() {
  PyObject* const made = once([] { return function(advancer_definition); });
  return made;
}

PyObject* iterable_of() {
  PyObject* const made = once([] { return PyType_FromSpec(&iterable_spec); });
  if (!made) Py_FatalError("gramme: out of memory");
  return made;
}

}  // namespace gramme::cpython
