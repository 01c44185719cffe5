// A running frame of CPython: reading it, rewriting it, linking it, unwinding it.
//
//   LiveFrame frame(raw);                    // what an evaluation hook is given
//   LinkedFrame linked(thread, frame);       // now the current frame: tracebacks and sys._getframe see it
//   if (!linked.entered()) return nullptr;   // RecursionError is set
//   ...
//   return linked.evaluate();                // CPython runs the rest of the frame
#pragma once
#include "base/ref.h"
#include "cpython/image.h"
#include "cpython/observed.h"
#include "cpython/thread.h"

namespace gramme::cpython {

/// A frame that gramme runs. The value stack is exact while C++ runs it; every item on it is one owned reference or
/// null (the NULL of PUSH_NULL).
class LiveFrame : public FrameImage {
 public:
  using FrameImage::FrameImage;

  /// What YIELD_VALUE leaves of a generator that runs; the frame stands where it goes on. Nothing may run any more
  /// until the evaluator's caller has the value.
  void suspend() const;
  /// False until the prologue has run: such a frame is invisible to tracebacks.
  bool complete() const { return !_PyFrame_IsIncomplete(raw()); }
};

/// Makes a frame the thread's current one as the evaluator does: linked, one level of recursion. Leaves it again at the
/// end of the scope, as the evaluator leaves it: a generator's that was suspended, or one that has ended. Scopes nest
/// strictly.
class LinkedFrame {
 public:
  LinkedFrame(PyThreadState* thread, LiveFrame frame);
  ~LinkedFrame();
  LinkedFrame(const LinkedFrame&) = delete;
  LinkedFrame& operator=(const LinkedFrame&) = delete;
  /// False: the recursion limit was hit and RecursionError is set; the frame must be left without a traceback entry.
  bool entered() const { return entered_; }
  /// Somebody began to watch while the frame was linked: it must go on in CPython.
  bool tracing() const;
  /// Unlinks and lets CPython run the frame from its next instruction to its end.
  PyObject* evaluate();

 private:
  void unlink();

  PyThreadState* thread_;
  LiveFrame frame_;
#if GRAMME_PYTHON_EVALUATOR_TRACES
  _PyCFrame cframe_;
#endif
  bool linked_ = true, entered_;
};

/// A traceback entry in front of `inner` (may be null) for a frame of the code that stood at the code unit; -1: at its
/// start. The frame has no variables. Null with an error set.
Owned<> traceback_entry(PyObject* inner, PyCodeObject* code, int unit, PyObject* globals);

/// Adds the linked frame's line to the traceback of the exception that is set.
void add_traceback(PyThreadState* thread, LiveFrame frame);
/// The exception that is set leaves the instruction at code unit `unit`. True: the frame stands at the handler. False:
/// there is none, the stack is empty and the exception still set.
bool unwind(LiveFrame frame, int unit);

}  // namespace gramme::cpython
