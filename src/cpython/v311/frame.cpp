#include "cpython/frame.h"

#include <frameobject.h>

#include <algorithm>

#include "cpython/v311/internal.h"

namespace gramme::cpython {

LinkedFrame::LinkedFrame(PyThreadState* thread, LiveFrame frame) : thread_(thread), frame_(frame) {
  _PyCFrame* outer = thread->cframe;
  cframe_.use_tracing = outer->use_tracing;
  cframe_.previous = outer;
  cframe_.current_frame = frame.raw();
  frame.raw()->is_entry = true;
  frame.raw()->previous = outer->current_frame;
  thread->cframe = &cframe_;
  entered_ = enter_recursive_call(thread, "");
  if (!entered_) --thread->recursion_remaining;  // as the evaluator: leaving gives the level back in both cases
}

LinkedFrame::~LinkedFrame() {
  if (linked_) unlink();
}

void LinkedFrame::unlink() {
  leave_recursive_call(thread_);
  thread_->cframe = cframe_.previous;
  thread_->cframe->use_tracing = cframe_.use_tracing;
  linked_ = false;
}

PyObject* LinkedFrame::evaluate() {
  unlink();
  return _PyEval_EvalFrameDefault(thread_, frame_.raw(), 0);
}

PyObject* handled_exception(PyThreadState* thread) {
  PyObject* exception = _PyErr_GetTopmostException(thread)->exc_value;
  return exception == Py_None ? nullptr : exception;
}

namespace {
PyObject* in_item(const _PyErr_StackItem* item) { return item->exc_value == Py_None ? nullptr : item->exc_value; }
}  // namespace

[[gnu::hot]] Handled handled_exceptions(PyThreadState* thread) {
  const _PyErr_StackItem* item = thread->exc_info;
  Handled found{in_item(item), nullptr};
  while (!found.outer && (item = item->previous_item)) found.outer = in_item(item);
  return found;
}

void set_handled_exception(PyThreadState* thread, PyObject* owned) {
  PyObject* old = thread->exc_info->exc_value;
  thread->exc_info->exc_value = owned;
  Py_XDECREF(old);
}

void add_traceback(PyThreadState* thread, LiveFrame frame) {
  if (!frame.complete()) return;
  if (PyFrameObject* object = PyThreadState_GetFrame(thread)) {
    PyTraceBack_Here(object);
    Py_DECREF(object);
  }
}

namespace {
/// What asks the frame for its variables reads free ones through cells, without looking whether there are any.
bool give_cells(FrameImage frame) {
  for (int i = frame.local_count() - frame.code()->co_nfreevars; i < frame.local_count(); ++i) {
    frame.set_local(i, PyCell_New(nullptr));
    if (!frame.local(i)) return false;
  }
  return true;
}
}  // namespace

Owned<> traceback_entry(PyObject* inner, PyCodeObject* code, int unit, PyObject* globals) {
  Owned<> empty = Owned<>::steal(globals ? nullptr : PyDict_New());
  PyFrameObject* frame = PyFrame_New(PyThreadState_Get(), code, globals ? globals : empty.get(), nullptr);
  auto held = Owned<>::steal(reinterpret_cast<PyObject*>(frame));
  if (!held || !give_cells(FrameImage(frame->f_frame))) return {};
  // At its first instruction a frame would still take the cells from a closure, and this one has none.
  if (unit >= 0 || code->co_nfreevars) FrameImage(frame->f_frame).set_current(std::max(unit, 0));
  const int byte = unit < 0 ? 0 : unit * static_cast<int>(sizeof(_Py_CODEUNIT));
  const int line = unit < 0 ? code->co_firstlineno : PyCode_Addr2Line(code, byte);
  return Owned<>::steal(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyTraceBack_Type), "OOii",
                                              inner ? inner : Py_None, held.get(), byte, line));
}

Owned<> take_exception() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Owned<> kind = Owned<>::steal(type), error = Owned<>::steal(value), where = Owned<>::steal(traceback);
  if (error && where) PyException_SetTraceback(error.get(), where.get());
  return error;
}

bool unwind(LiveFrame frame, int unit) {
  ExceptionTable::Entry handler;
  if (!find_handler(frame.code(), unit, &handler)) {
    frame.drop(frame.depth());
    return false;
  }
  frame.drop(frame.depth() - handler.depth);
  if (handler.lasti) {
    PyObject* lasti = PyLong_FromLong(frame.current());
    if (!lasti) return unwind(frame, unit);  // MemoryError takes the exception's place
    frame.push(lasti);
  }
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyException_SetTraceback(value, traceback ? traceback : Py_None);
  Py_XDECREF(traceback);
  Py_XDECREF(type);
  frame.push(value);
  frame.set_next(handler.target);
  return true;
}

bool eval_breaker(PyThreadState* thread) { return _Py_atomic_load_relaxed(&thread->interp->ceval.eval_breaker) != 0; }

bool enter_recursive_call(PyThreadState* thread, const char* where) {
  return thread->recursion_remaining-- > 0 || _Py_CheckRecursiveCall(thread, where) == 0;
}

namespace {

/// As ceval_gil.c does after it has taken an asynchronous exception.
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

}  // namespace gramme::cpython
