// Getting hold of the frame of one particular call before it runs.
#pragma once
#include <Python.h>

#include "cpython/frame.h"

namespace gramme::cpython {

/// Runs a frame that has its arguments bound and has not started. Must not throw.
using FrameRunner = PyObject* (*)(void* context, PyThreadState* thread, LiveFrame frame);

/// Calls a Python function (no generator, no coroutine) for real, with `run` in the evaluator's place for that one
/// frame. The interpreter's evaluation hook is ours only from here until that frame appears; frames of others pass
/// through to whoever was hooked in before. Binding errors are CPython's own. Costs some 5 ns over the call.
PyObject* call_with_frame(PyThreadState* thread, PyFunctionObject* function, PyObject* const* args, size_t nargsf,
                          PyObject* kwnames, FrameRunner run, void* context);

}  // namespace gramme::cpython
