// State of a Python thread: the set exception, those being handled, levels of recursion, requests to stop the
// evaluator.
#pragma once
#include "base/ref.h"
#include "cpython/features.h"

namespace gramme::cpython {

/// True if an exception is set.
inline bool is_raising(PyThreadState* thread) {
#if GRAMME_PYTHON_RAISED_OBJECT
  return thread->current_exception != nullptr;
#else
  return thread->curexc_type != nullptr;
#endif
}
/// Takes the set exception, with its traceback; none is set afterwards.
Owned<> take_exception();
/// Sets an exception with the traceback that it has.
void set_exception(PyObject* exception);

/// The exception being handled, as sys.exc_info() sees it; borrowed, null if there is none.
PyObject* handled_exception(PyThreadState* thread);
struct Handled {
  PyObject* own;    // handled by the innermost running generator or, if there is none, by functions
  PyObject* outer;  // handled by the code that resumed that generator
};
/// The exceptions being handled, borrowed; null where there is none. `own` hides `outer`.
Handled handled_exceptions(PyThreadState* thread);
/// Sets the exception that the current function or generator handles, and drops the old one. Takes a reference over.
void set_handled_exception(PyThreadState* thread, PyObject* owned);

/// True if the evaluator has been asked to stop for signals, pending calls, the GIL or an asynchronous exception.
bool eval_breaker(PyThreadState* thread);
/// Handles those requests; false with an exception set.
bool handle_pending(PyThreadState* thread);

/// Enters the level of recursion that CPython counts for a call through tp_call.
bool enter_recursive_call(PyThreadState* thread, const char* where);
void leave_recursive_call(PyThreadState* thread);

/// The levels of recursion left for Python frames.
inline int& levels_left(PyThreadState* thread) {
#if GRAMME_PYTHON_OWN_LEVELS
  return thread->py_recursion_remaining;
#else
  return thread->recursion_remaining;
#endif
}
/// Enters a frame's level of recursion. False if the limit was hit: RecursionError is set. leave_frame() must be called
/// in both cases.
bool enter_frame(PyThreadState* thread);
inline void leave_frame(PyThreadState* thread) { ++levels_left(thread); }
/// True if the limit allows more than `count` further levels.
inline bool has_recursive_calls(PyThreadState* thread, int count) { return levels_left(thread) > count; }

}  // namespace gramme::cpython
