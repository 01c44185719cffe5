#include "cpython/evaluator.h"

#include "cpython/v311/internal.h"

namespace gramme::cpython {
namespace {

/// A call whose frame has not appeared yet. Binding arguments may collect garbage, whose finalizers run any Python and
/// let other threads in: so several can be pending, of several threads. All guarded by the GIL.
struct Pending {
  PyThreadState* thread;
  PyFunctionObject* function;
  FrameRunner run;
  void* context;
  Pending* older;
};

struct Hook {
  Pending* newest = nullptr;
  _PyFrameEvalFunction previous = _PyEval_EvalFrameDefault;
} hook_state;

/// The frame that this thread is passing on: guards against somebody who took our hook for the default and calls back.
thread_local _PyInterpreterFrame* passing = nullptr;

PyObject* evaluate(PyThreadState* thread, _PyInterpreterFrame* raw, int throwing);

void install(PyInterpreterState* interpreter) {
  _PyFrameEvalFunction current = _PyInterpreterState_GetEvalFrameFunc(interpreter);
  if (current == evaluate) return;
  hook_state.previous = current;
  _PyInterpreterState_SetEvalFrameFunc(interpreter, evaluate);
}

void remove(PyInterpreterState* interpreter) {
  if (!hook_state.newest && _PyInterpreterState_GetEvalFrameFunc(interpreter) == evaluate)
    _PyInterpreterState_SetEvalFrameFunc(interpreter, hook_state.previous);
}

/// Takes the pending call out of the list; false if its frame has appeared before.
bool take(Pending* pending) {
  for (Pending** link = &hook_state.newest; *link; link = &(*link)->older) {
    if (*link != pending) continue;
    *link = pending->older;
    return true;
  }
  return false;
}

Pending* find(PyThreadState* thread, _PyInterpreterFrame* raw) {
  for (Pending* pending = hook_state.newest; pending; pending = pending->older)
    if (pending->thread == thread) return pending->function == raw->f_func ? pending : nullptr;
  return nullptr;
}

PyObject* pass_on(PyThreadState* thread, _PyInterpreterFrame* raw, int throwing) {
  if (passing == raw || hook_state.previous == evaluate) return _PyEval_EvalFrameDefault(thread, raw, throwing);
  _PyInterpreterFrame* outer = passing;
  passing = raw;
  PyObject* result = hook_state.previous(thread, raw, throwing);
  passing = outer;
  return result;
}

PyObject* evaluate(PyThreadState* thread, _PyInterpreterFrame* raw, int throwing) {
  Pending* pending = throwing ? nullptr : find(thread, raw);
  if (!pending) return pass_on(thread, raw, throwing);
  take(pending);
  remove(thread->interp);
  return pending->run(pending->context, thread, LiveFrame(raw));
}

}  // namespace

PyObject* call_with_frame(PyThreadState* thread, PyFunctionObject* function, PyObject* const* args, size_t nargsf,
                          PyObject* kwnames, FrameRunner run, void* context) {
  Pending pending{thread, function, run, context, hook_state.newest};
  install(thread->interp);
  hook_state.newest = &pending;
  PyObject* result = PyObject_Vectorcall(reinterpret_cast<PyObject*>(function), args, nargsf, kwnames);
  if (take(&pending)) remove(thread->interp);
  return result;
}

}  // namespace gramme::cpython
