// Instructions that suspend generators and coroutines, and those that delegate to others.
#include "base/ref.h"
#include "cpython/generator_image.h"
#include "cpython/internal.h"
#include "cpython/steps.h"

namespace gramme::cpython {

Outcome yield_value(Step& s) {
  s.result.value = s.frame.pop();
  s.frame.set_next(s.next);
  s.frame.suspend();
  return Outcome::Returned;
}

/// SEND: the receiver stays on the stack while it runs, since the generator waits for it.
Outcome send(Step& s) {
  PyObject* sent = s.frame.pop();
  PyObject* result;
  const PySendResult status = PyIter_Send(s.frame.item(), sent, &result);
  Py_DECREF(sent);
  if (status == PYGEN_ERROR) return Outcome::Raised;
  if (status == PYGEN_NEXT) return s.push(result);
  s.next = s.decoded.target;
  return s.replace(1, result);
}

#if GRAMME_PYTHON_ITERATOR_PAIRS
/// SEND for iterator pairs: a list or tuple advances by its index.
Outcome send_pair(Step& s) {
  const auto sent = Owned<>::steal(s.frame.pop());
  PyObject* result = nullptr;
  if (s.frame.item_kind() == SlotKind::Empty) {
    const PySendResult status = PyIter_Send(s.frame.item(2), sent.get(), &result);
    if (status == PYGEN_ERROR) return Outcome::Raised;
    if (status == PYGEN_NEXT) return s.push(result);
  } else {
    const int pushed = s.frame.push_next(s.thread);
    if (pushed != 0) return pushed > 0 ? Outcome::Next : Outcome::Raised;
    result = Py_NewRef(Py_None);
  }
  s.next = s.decoded.target;
  return s.replace(2, result);
}
#else
Outcome send_pair(Step&) { return Outcome::HandOver; }
#endif

Outcome end_send(Step& s) {
  s.frame.swap(2);
  s.frame.drop(1);
  return Outcome::Next;
}

Outcome end_send_pair(Step& s) {
  s.frame.swap(3);
  s.frame.drop(2);
  return Outcome::Next;
}

Outcome get_yield_from_iter(Step& s) {
  PyObject* iterable = s.frame.item();
  if (PyCoro_CheckExact(iterable))
    return s.frame.code()->co_flags & (CO_COROUTINE | CO_ITERABLE_COROUTINE) ? Outcome::Next : Outcome::HandOver;
  return PyGen_CheckExact(iterable) ? Outcome::Next : s.replace(1, PyObject_GetIter(iterable));
}

namespace {
unaryfunc anext_of(PyObject* object) {
  const PyAsyncMethods* methods = Py_TYPE(object)->tp_as_async;
  return methods ? methods->am_anext : nullptr;
}
}  // namespace

Outcome get_aiter(Step& s) {
  PyObject* object = s.frame.item();
  const PyAsyncMethods* methods = Py_TYPE(object)->tp_as_async;
  if (!methods || !methods->am_aiter) return Outcome::HandOver;
  auto iterator = Owned<>::steal(methods->am_aiter(object));
  if (iterator && anext_of(iterator.get())) return s.replace(1, iterator.release());
  if (iterator)
    PyErr_Format(PyExc_TypeError,
                 "'async for' received an object from __aiter__ that does not implement __anext__: %.100s",
                 Py_TYPE(iterator.get())->tp_name);
  return Outcome::Raised;
}

#if GRAMME_PYTHON_EXPORTED_NAMES
Outcome get_awaitable(Step& s) { return s.replace(1, _PyEval_GetAwaitable(s.frame.item(), s.arg)); }

Outcome get_anext(Step& s) { return s.push(_PyEval_GetANext(s.frame.item())); }
#else
namespace {

/// True for a generator made a coroutine by types.coroutine().
bool is_iterable_coroutine(PyObject* object) {
  if (!PyGen_CheckExact(object)) return false;
  return code_of_generator(object)->co_flags & CO_ITERABLE_COROUTINE;
}

bool is_coroutine(PyObject* object) { return PyCoro_CheckExact(object) || is_iterable_coroutine(object); }

unaryfunc awaiter_of(PyObject* object) {
  const PyAsyncMethods* methods = Py_TYPE(object)->tp_as_async;
  return methods ? methods->am_await : nullptr;
}

/// The result of the type's __await__; null with an error set.
PyObject* call_await(PyObject* object) {
  auto made = Owned<>::steal(awaiter_of(object)(object));
  if (!made) return nullptr;
  if (is_coroutine(made.get())) {
    PyErr_SetString(PyExc_TypeError, "__await__() returned a coroutine");
    return nullptr;
  }
  if (PyIter_Check(made.get())) return made.release();
  PyErr_Format(PyExc_TypeError, "__await__() returned non-iterator of type '%.100s'", Py_TYPE(made.get())->tp_name);
  return nullptr;
}

/// The iterator that `await` runs; null with an error set.
PyObject* awaitable_iterator(PyObject* object) {
  if (is_coroutine(object)) return Py_NewRef(object);
  if (awaiter_of(object)) return call_await(object);
  PyErr_Format(PyExc_TypeError, "object %.100s can't be used in 'await' expression", Py_TYPE(object)->tp_name);
  return nullptr;
}

/// Checks that nothing else waits for the coroutine; false with an error set.
bool check_not_awaited(PyObject* coroutine) {
  auto waits_for = Owned<>::steal(PyObject_GetAttrString(coroutine, "cr_await"));
  if (!waits_for) return false;
  if (waits_for.get() == Py_None) return true;
  PyErr_SetString(PyExc_RuntimeError, "coroutine is being awaited already");
  return false;
}
}  // namespace

Outcome get_awaitable(Step& s) {
  PyObject* object = s.frame.item();
  if (PyCoro_CheckExact(object)) return check_not_awaited(object) ? Outcome::Next : Outcome::Raised;
  if (is_iterable_coroutine(object)) return Outcome::Next;
  return awaiter_of(object) ? s.replace(1, call_await(object)) : Outcome::HandOver;
}

Outcome get_anext(Step& s) {
  PyObject* iterator = s.frame.item();
  if (!anext_of(iterator)) return Outcome::HandOver;
  auto next = Owned<>::steal(anext_of(iterator)(iterator));
  if (!next || PyAsyncGen_CheckExact(iterator)) return s.push(next.release());
  PyObject* awaited = awaitable_iterator(next.get());
  if (!awaited)
    _PyErr_FormatFromCause(PyExc_TypeError, "'async for' received an invalid object from __anext__: %.100s",
                           Py_TYPE(next.get())->tp_name);
  return s.push(awaited);
}
#endif

}  // namespace gramme::cpython
