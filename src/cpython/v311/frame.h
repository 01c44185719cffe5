// Running frames of CPython 3.11. Include cpython/frame.h.
#pragma once
#include "base/ref.h"
#include "cpython/code_object.h"
#include "cpython/image.h"

namespace gramme::cpython {

/// A frame that gramme runs. The value stack is exact while C++ runs it; every item on it is one owned reference or
/// null (the NULL of PUSH_NULL).
class LiveFrame : public FrameImage {
 public:
  using FrameImage::FrameImage;

  /// What YIELD_VALUE leaves of a generator that runs. Nothing may run any more until the evaluator's caller has the
  /// value.
  void suspend() const { _PyFrame_GetGenerator(raw())->gi_frame_state = FRAME_SUSPENDED; }
  /// False until the prologue has run: such a frame is invisible to tracebacks.
  bool complete() const { return !_PyFrame_IsIncomplete(raw()); }
};

/// Makes a frame the thread's current one as the evaluator does: linked, one level of recursion, its own tracing flag.
/// Leaves it again at the end of the scope. Scopes nest strictly.
class LinkedFrame {
 public:
  LinkedFrame(PyThreadState* thread, LiveFrame frame);
  ~LinkedFrame();
  LinkedFrame(const LinkedFrame&) = delete;
  LinkedFrame& operator=(const LinkedFrame&) = delete;
  /// False: the recursion limit was hit and RecursionError is set; the frame must be left without a traceback entry.
  bool entered() const { return entered_; }
  /// Somebody switched tracing or profiling on while the frame was linked: it must go on in CPython.
  bool tracing() const { return cframe_.use_tracing != 0; }
  /// Unlinks and lets CPython run the frame from its next instruction to its end.
  PyObject* evaluate();

 private:
  void unlink();

  PyThreadState* thread_;
  LiveFrame frame_;
  _PyCFrame cframe_;
  bool linked_ = true, entered_;
};

/// Is tracing or profiling on, or is a trace function running?
inline bool tracing_active(PyThreadState* thread) {
  return thread->cframe->use_tracing || thread->c_tracefunc || thread->c_profilefunc;
}

/// The exception being handled, as sys.exc_info() sees it; borrowed, null if there is none.
PyObject* handled_exception(PyThreadState* thread);
struct Handled {
  PyObject* own;    // by the innermost generator under way or, if there is none, by functions
  PyObject* outer;  // by whoever resumed that generator
};
/// Borrowed; null where there is none. The former hides the latter.
Handled handled_exceptions(PyThreadState* thread);
/// Sets the exception that the current function or generator handles, and drops the old one. Takes a reference over.
void set_handled_exception(PyThreadState* thread, PyObject* owned);

/// A traceback entry in front of `inner` (may be null) for a frame of the code that stood at the code unit; -1: at its
/// start. The frame has no variables. Null with an error set.
Owned<> traceback_entry(PyObject* inner, PyCodeObject* code, int unit, PyObject* globals);
/// The exception that is set, with its traceback; none is set afterwards.
Owned<> take_exception();

/// Adds the linked frame's line to the traceback of the exception that is set.
void add_traceback(PyThreadState* thread, LiveFrame frame);
/// The exception that is set leaves the instruction at code unit `unit`. True: the frame stands at the handler. False:
/// there is none, the stack is empty and the exception still set.
bool unwind(LiveFrame frame, int unit);

/// Has the evaluator been asked to stop for signals, pending calls, the GIL or an asynchronous exception?
bool eval_breaker(PyThreadState* thread);
/// Does what was asked for; false with an exception set.
bool handle_pending(PyThreadState* thread);

/// The level of recursion that CPython counts for a call through tp_call.
bool enter_recursive_call(PyThreadState* thread, const char* where);
inline void leave_recursive_call(PyThreadState* thread) { ++thread->recursion_remaining; }
/// Does the limit allow so many more levels?
inline bool has_recursive_calls(PyThreadState* thread, int count) { return thread->recursion_remaining > count; }

}  // namespace gramme::cpython
