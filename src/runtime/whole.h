// One call captured as a whole, and not run: what it would return and change, in the terms of its graph.
#pragma once
#include <Python.h>

#include <string>
#include <vector>

#include "base/ref.h"
#include "plan/replay.h"
#include "runtime/capturer.h"

namespace gramme::runtime {

/// What the call would do to an object that is there already, or a call that has effects.
struct Change {
  plan::ReplayKind kind;
  Owned<> target;  // null for calls
  Owned<> key;     // the attribute's name, the callable, the key of a dict; null if there is none
  std::vector<Owned<>> values;
  int64_t number;
};

struct Whole {
  Owned<> result;  // made of what was there before and of what the compiled graph gave
  std::vector<Change> changes;
};

/// Captures the call, which takes as many positional arguments. The capturer's backend gives a function in the graph's
/// place, which is called once for the objects that stand for the graph's outputs. Throws PythonError.
Whole capture_whole(PyFunctionObject* function, const std::vector<PyObject*>& arguments, Capturer& capturer);

}  // namespace gramme::runtime
