// One call captured as a whole but not run: what it would return and change, expressed by its graph's outputs.
#pragma once
#include <Python.h>

#include <string>
#include <vector>

#include "base/ref.h"
#include "plan/replay.h"
#include "runtime/capturer.h"

namespace gramme::runtime {

/// One change that the call would make to an existing object, or a call with effects.
struct Change {
  plan::ReplayKind kind;
  Owned<> target;  // null for calls
  Owned<> key;     // the attribute's name, the callable, the key of a dict; null if there is none
  std::vector<Owned<>> values;
  int64_t number;
};

struct Whole {
  Owned<> result;  // made of existing objects and of what the compiled graph returned
  std::vector<Change> changes;
};

/// Captures a call with these positional arguments. The function that the capturer's backend returns for the graph is
/// called once, for objects that stand for the graph's outputs. Throws PythonError.
Whole capture_whole(PyFunctionObject* function, const std::vector<PyObject*>& arguments, Capturer& capturer);

}  // namespace gramme::runtime
