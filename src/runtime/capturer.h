// What the runtime asks of the capturing side. The runtime knows no value, no trace and no interpreter.
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
  int unit;           // of the instruction
  plan::Gives gives;  // what it gives when the other returns
};

/// What a capture would now be told beside the program, as numbers: another entry's segments with equal terms may serve
/// this one. 0: none may.
struct Terms {
  uint64_t own = 0;
  uint64_t captures = 0;  // without the backend, which may get the graph that a capture for another one made
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
  PyObject* outer;      // that around the generator under way
  std::vector<WaitingView> callers = {};  // the nearest first: a segment may return into them
  bool iterates = true;                   // and may take items of iterators from before
  bool rehearses = false;                 // aot_eager gets the graph in place of the compiler
  Terms terms = {};                       // of the segment that a capture makes, unless no other entry may have it
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
  /// Null: run this frame plainly from here on. Throws PythonError (a CaptureError under fullgraph, a failing backend).
  virtual std::unique_ptr<plan::Segment> capture(const FrameView& frame) = 0;
  /// Not while captures are switched off: what no segment serves runs plainly.
  virtual bool may_capture() const { return true; }
  virtual Terms terms() { return {}; }
  /// A segment of another entry is taken in the place of a capture. True if somebody heard of it: Python ran.
  virtual bool taken(const FrameView&, plan::Segment&) { return false; }
  /// True if the backend can have the graph of another entry's segment without a capture, for a call with these inputs.
  virtual bool can_hand_over(const plan::Segment&, const std::vector<Owned<>>&) { return false; }
  /// A copy of that segment becomes this entry's: its backend gets the graph. False: a capture is needed. Throws as
  /// capture() does.
  virtual bool hand_over(const FrameView&, plan::Segment&, const std::vector<Owned<>>&) { return false; }
  /// Another entry's does not fit the call: what a capture may learn from it.
  virtual void missed(const FrameView&, const plan::Segment&) {}
  /// True if it may serve entries that are made when this one is gone: but for its graph, perhaps, which is dropped.
  virtual bool outlasts(plan::Segment&) { return false; }
  /// Nothing is captured this time: what later captures may learn from it.
  virtual void look(const FrameView&) {}
  /// The recompile limit is reached: may one more capture serve calls for which each of those before was too special?
  virtual bool generalize(const FrameView&) { return false; }
  /// Called when the recompile limit is reached for a resume point: warns (or raises under fullgraph), naming the guard
  /// that kept failing. True: run plainly from now on.
  virtual bool limit_reached(const FrameView& frame, int limit, const Mismatch& failing) = 0;
  /// Before a capture where there are segments already, if somebody wants to hear why none of them could be used.
  virtual bool wants_reasons() const { return false; }
  /// May raise instead.
  virtual void recompiling(const FrameView&, const std::vector<Missed>&) {}
  /// What becomes of a function that begins while an instruction is carried out for real, as far as it is the
  /// function's to say. May throw.
  virtual cpython::FrameRule rule_of(PyFunctionObject*) { return cpython::FrameRule::Take; }
  virtual int recompile_limit() const = 0;
  virtual bool fullgraph() const = 0;
  /// Who compiles the graphs; for messages, and asked for `locate` (python/gramme/_handover.py). May be null.
  virtual PyObject* backend() const { return nullptr; }
  /// For the garbage collector: visits each Python object that this holds a reference to.
  virtual int traverse(visitproc, void*) const { return 0; }
};

}  // namespace gramme::runtime
