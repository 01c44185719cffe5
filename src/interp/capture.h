// Captures one segment: the interpreter on a live frame's objects, again from the start up to the instruction that
// cannot be captured, then the segment. Nothing observable happens.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "trace/finish.h"

namespace gramme::interp {

/// A live frame that waits for another, which its instruction called.
struct Waiting {
  PyFunctionObject* function;
  PyCodeObject* code;
  PyObject* const* locals;
  PyObject* const* stack;  // with the operands of the instruction that waits
  int depth;
  int unit;           // of the instruction
  plan::Gives gives;  // what it gives when the other returns
};

/// The live frame a capture starts from.
struct Start {
  PyFunctionObject* function;
  PyCodeObject* code;
  PyObject* const* locals;
  PyObject* const* stack;
  int depth;
  int offset;           // code unit
  PyObject* exception;  // being handled, or null; `outer` is that around the generator under way
  PyObject* outer;
  std::vector<Waiting> callers;  // the nearest first
};

/// Gets the finished trace's graph compiled and fills the segment's `compiled`; may throw PythonError. False: the
/// backend takes no such graph, and what would run it runs plainly.
using Compile =
    std::function<bool(const trace::Trace& trace, const std::vector<Owned<>>& inputs, plan::Segment& segment)>;

/// May throw trace::Unguardable. `policy` learns what has to be a constant. Where no breaks
/// are allowed the segment is of no use if it does not return; where an operation raises, the frame then runs plainly,
/// so that its exception is eager's.
std::unique_ptr<plan::Segment> capture(const Start& start, trace::Policy& policy, const Compile& compile);

}  // namespace gramme::interp
