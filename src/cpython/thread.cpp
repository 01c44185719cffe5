// The exception that is set in a thread, and its levels of recursion, in each version's own form: the exception is an
// object or a triple, levels are counted in one or two fields.
#include "cpython/thread.h"

#include "cpython/internal.h"

namespace gramme::cpython {

#if GRAMME_PYTHON_RAISED_OBJECT
Owned<> take_exception() { return Owned<>::steal(PyErr_GetRaisedException()); }

void set_exception(PyObject* exception) { PyErr_SetRaisedException(Py_NewRef(exception)); }
#else
Owned<> take_exception() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Owned<> kind = Owned<>::steal(type), error = Owned<>::steal(value), where = Owned<>::steal(traceback);
  if (error && where) PyException_SetTraceback(error.get(), where.get());
  return error;
}

void set_exception(PyObject* exception) {
  PyErr_Restore(Py_NewRef(PyExceptionInstance_Class(exception)), Py_NewRef(exception),
                PyException_GetTraceback(exception));
}
#endif

namespace {
PyObject* in_item(const _PyErr_StackItem* item) { return item->exc_value == Py_None ? nullptr : item->exc_value; }
}  // namespace

PyObject* handled_exception(PyThreadState* thread) {
  const _PyErr_StackItem* item = thread->exc_info;
  while (!in_item(item) && item->previous_item) item = item->previous_item;
  return in_item(item);
}

[[gnu::hot]] Handled handled_exceptions(PyThreadState* thread) {
  const _PyErr_StackItem* item = thread->exc_info;
  Handled found{in_item(item), nullptr};
  while (!found.outer && (item = item->previous_item)) found.outer = in_item(item);
  return found;
}

void set_handled_exception(PyThreadState* thread, PyObject* owned) {
#if GRAMME_PYTHON_RAISED_OBJECT
  if (owned == Py_None) Py_CLEAR(owned);
#endif
  PyObject* old = thread->exc_info->exc_value;
  thread->exc_info->exc_value = owned;
  Py_XDECREF(old);
}

#if GRAMME_PYTHON_OWN_LEVELS
bool enter_recursive_call(PyThreadState* thread, const char* where) {
  return _Py_EnterRecursiveCallTstate(thread, where) == 0;
}
void leave_recursive_call(PyThreadState* thread) { _Py_LeaveRecursiveCallTstate(thread); }

bool enter_frame(PyThreadState* thread) {
  if (thread->py_recursion_remaining-- > 0 || thread->recursion_headroom) return true;
  ++thread->recursion_headroom;
  PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded");
  --thread->recursion_headroom;
  return false;
}
#else
bool enter_recursive_call(PyThreadState* thread, const char* where) {
  return thread->recursion_remaining-- > 0 || _Py_CheckRecursiveCall(thread, where) == 0;
}
void leave_recursive_call(PyThreadState* thread) { ++thread->recursion_remaining; }

/// If it refuses, _Py_CheckRecursiveCall has already given the level back.
bool enter_frame(PyThreadState* thread) {
  if (enter_recursive_call(thread, "")) return true;
  --thread->recursion_remaining;
  return false;
}
#endif

#if GRAMME_PYTHON_OWN_BREAKER
bool eval_breaker(PyThreadState* thread) { return (thread->eval_breaker & _PY_EVAL_EVENTS_MASK) != 0; }
bool handle_pending(PyThreadState* thread) { return _Py_HandlePending(thread) == 0; }
#else
bool eval_breaker(PyThreadState* thread) { return _Py_atomic_load_relaxed(&thread->interp->ceval.eval_breaker) != 0; }

namespace {

/// Clears the request as ceval_gil.c does when it takes an asynchronous exception.
void clear_async_request(PyInterpreterState* interpreter) {
  interpreter->ceval.pending.async_exc = 0;
  int rest = _Py_atomic_load_relaxed(&interpreter->ceval.gil_drop_request) |
             _Py_atomic_load_relaxed(&interpreter->runtime->ceval.signals_pending) |
             _Py_atomic_load_relaxed(&interpreter->ceval.pending.calls_to_do);
  _Py_atomic_store_relaxed(&interpreter->ceval.eval_breaker, rest);
}

}  // namespace

bool handle_pending(PyThreadState* thread) {
  PyInterpreterState* interpreter = thread->interp;
  if (_Py_atomic_load_relaxed(&interpreter->runtime->ceval.signals_pending) ||
      _Py_atomic_load_relaxed(&interpreter->ceval.pending.calls_to_do))
    if (Py_MakePendingCalls() < 0) return false;
  if (_Py_atomic_load_relaxed(&interpreter->ceval.gil_drop_request)) PyEval_RestoreThread(PyEval_SaveThread());
  if (PyObject* exception = thread->async_exc) {
    thread->async_exc = nullptr;
    clear_async_request(interpreter);
    PyErr_SetNone(exception);
    Py_DECREF(exception);
    return false;
  }
  return true;
}
#endif

}  // namespace gramme::cpython
