// Reads, rewrites, links and unwinds running frames of CPython.
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

  /// Suspends a running generator as YIELD_VALUE does; the frame is at the instruction to resume with. Nothing may run
  /// until the evaluator's caller has the value.
  void suspend() const;
  /// False until the prologue has run: such a frame is invisible to tracebacks.
  bool complete() const { return !_PyFrame_IsIncomplete(raw()); }
};

/// Makes a frame the thread's current one as the evaluator does: linked, and counted as a level of recursion. The end
/// of the scope leaves it as the evaluator does, suspended or ended. Scopes nest strictly.
class LinkedFrame {
 public:
  LinkedFrame(PyThreadState* thread, LiveFrame frame);
  ~LinkedFrame();
  LinkedFrame(const LinkedFrame&) = delete;
  LinkedFrame& operator=(const LinkedFrame&) = delete;
  /// False if the recursion limit was hit: RecursionError is set, and the frame must be left without a traceback entry.
  bool entered() const { return entered_; }
  /// True if a tracer or tool began to observe while the frame was linked: CPython must run the rest.
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

/// A traceback entry before `inner` (may be null) for a frame of the code at this code unit; -1 is its start. The frame
/// has no variables. Null with an error set.
Owned<> traceback_entry(PyObject* inner, PyCodeObject* code, int unit, PyObject* globals);

/// Adds the linked frame's line to the traceback of the exception that is set.
void add_traceback(PyThreadState* thread, LiveFrame frame);
/// Unwinds from the instruction at code unit `unit` with the set exception. True: the frame is at the handler. False:
/// there is none; the stack is empty and the exception still set.
bool unwind(LiveFrame frame, int unit);

}  // namespace gramme::cpython
