// The interface through which the runtime asks for captures. The runtime itself knows no value, trace or interpreter.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cpython/evaluator.h"
#include "plan/segment.h"

namespace gramme::runtime {

/// A live frame that waits for another, which its instruction called.
struct WaitingView {
  PyFunctionObject* function;
  PyCodeObject* code;
  PyObject* const* locals;
  PyObject* const* stack;  // with the operands of the instruction
  int depth;
  int unit;           // code unit of the instruction
  plan::Gives gives;  // use of the value that the other returns
};

/// Numbers for all that a capture depends on beside the program. Segments of another entry with equal terms may serve
/// this one. 0: none may.
struct Terms {
  uint64_t own = 0;       // backend, flags and settings
  uint64_t captures = 0;  // the same without the backend, which may get the graph that was captured for another one
};

/// A live frame at a resume point, with real objects in it.
struct FrameView {
  PyFunctionObject* function;
  PyCodeObject* code;
  PyObject* const* locals;  // localsplus: locals, cells, free variables; null where unbound
  int local_count;          // co_nlocalsplus
  PyObject* const* stack;
  int depth;
  int offset;           // code unit of the next instruction; 0 at the function's start (prologue not run yet)
  PyObject* exception;  // the exception being handled, or null
  PyObject* outer;      // the one handled around the running generator
  std::vector<WaitingView> callers = {};  // nearest first: a segment may return into them
  bool iterates = true;                   // the segment may take items of iterators that exist already
  bool rehearses = false;                 // aot_eager gets the graph instead of the compiler
  Terms terms = {};                       // terms of the captured segment; none if it may not be shared
};

/// A segment that could not be used, and why.
struct Missed {
  plan::CompileId id;
  Mismatch why;
};

/// One per compiled function family: what gramme.compile was told. Callees captured on their own share it.
class Capturer {
 public:
  virtual ~Capturer() = default;
  /// Captures the segment that starts at the frame's resume point and compiles its graph; nothing observable happens.
  /// Null: run this frame uncompiled from here on. Throws PythonError (a CaptureError under fullgraph, a failing
  /// backend).
  virtual std::unique_ptr<plan::Segment> capture(const FrameView& frame) = 0;
  /// False while captures are switched off; calls that no segment serves then run uncompiled.
  virtual bool may_capture() const { return true; }
  /// The terms of a capture that would be made now.
  virtual Terms terms() { return {}; }
  /// Called when a segment of another entry is used instead of a new capture. True if a listener was told: Python ran.
  virtual bool taken(const FrameView&, plan::Segment&) { return false; }
  /// True if the backend can have the graph of another entry's segment without a capture, for a call with these inputs.
  virtual bool can_hand_over(const plan::Segment&, const std::vector<Owned<>>&) { return false; }
  /// Makes a copy of another entry's segment this entry's own: its backend gets the kept graph. False: a capture is
  /// needed. Throws as capture() does.
  virtual bool hand_over(const FrameView&, plan::Segment&, const std::vector<Owned<>>&) { return false; }
  /// Called when another entry's segment does not fit the call, so that the next capture can learn from it.
  virtual void missed(const FrameView&, const plan::Segment&) {}
  /// True if the segment may serve entries made after this one has died. Its graph is dropped if that must die.
  virtual bool outlasts(plan::Segment&) { return false; }
  /// Called when this run is not captured, so that later captures can learn from its values.
  virtual void look(const FrameView&) {}
  /// At the recompile limit: true if one more, less specialised capture may serve the calls that all earlier ones
  /// rejected.
  virtual bool generalize(const FrameView&) { return false; }
  /// Called when the recompile limit is reached for a resume point: warns (or raises under fullgraph), naming the guard
  /// that kept failing. True: run uncompiled from now on.
  virtual bool limit_reached(const FrameView& frame, int limit, const Mismatch& failing) = 0;
  /// True if recompiling() is to be called before a capture at a place that has segments already.
  virtual bool wants_reasons() const { return false; }
  /// Reports why none of the segments could be used. May throw.
  virtual void recompiling(const FrameView&, const std::vector<Missed>&) {}
  /// What becomes of a function that begins during a concrete instruction, as far as the function decides it. May
  /// throw.
  virtual cpython::FrameRule rule_of(PyFunctionObject*) { return cpython::FrameRule::Take; }
  virtual int recompile_limit() const = 0;
  virtual bool fullgraph() const = 0;
  /// The backend, for messages and for its method `locate` (python/gramme/_handover.py). May be null.
  virtual PyObject* backend() const { return nullptr; }
  /// For the garbage collector: visits each Python object that this refers to.
  virtual int traverse(visitproc, void*) const { return 0; }
};

}  // namespace gramme::runtime
