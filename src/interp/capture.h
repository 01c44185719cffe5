// Captures one segment: runs the symbolic interpreter on a live frame's objects, if need be again up to the instruction
// that cannot be captured, then builds the segment. Nothing observable happens.
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
  PyObject* const* stack;  // includes the operands of the waiting instruction
  int depth;
  int unit;           // code unit of the waiting instruction
  plan::Gives gives;  // what it does with the value
};

/// The live frame a capture starts from.
struct Start {
  PyFunctionObject* function;
  PyCodeObject* code;
  PyObject* const* locals;
  PyObject* const* stack;
  int depth;
  int offset;           // code unit
  PyObject* exception;  // being handled, or null; `outer`: around the running generator
  PyObject* outer;
  std::vector<Waiting> callers;  // nearest first
};

/// Compiles the finished trace's graph and fills in the segment's `compiled`; may throw PythonError. False: the backend
/// does not accept the graph, so its code runs uncompiled.
using Compile =
    std::function<bool(const trace::Trace& trace, const std::vector<Owned<>>& inputs, plan::Segment& segment)>;

/// Captures a segment. `policy` learns which numbers must be constants. Without breaks, a segment that does not return
/// is of no use; if an operation raises then, the frame runs uncompiled so that the exception is eager's. May throw
/// trace::Unguardable.
std::unique_ptr<plan::Segment> capture(const Start& start, trace::Policy& policy, const Compile& compile);

}  // namespace gramme::interp
