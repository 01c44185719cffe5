// Replaces calls of one function of a library by gramme's own implementation, which declines where the program could
// see a difference.
#pragma once
#include "cpython/concrete.h"

namespace gramme::runtime {

/// Runs the function with one argument: 1 if it ran, and returned None; 0 if nothing was done; -1 with an error set.
using RunInstead = int (*)(PyObject* argument);

/// Lets calls of `function` with one argument, made between segments, be run by `run` first.
void stand_in_for(PyObject* function, RunInstead run);
/// The hook for such calls; null if there is no function.
const cpython::CallHook* stand_in();

}  // namespace gramme::runtime
