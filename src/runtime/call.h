// Calling a compiled function: one segment answers without a frame, or its frame runs as a chain of segments.
#pragma once
#include <Python.h>

#include <memory>

#include "cpython/frame.h"
#include "runtime/table.h"

namespace gramme::runtime {

/// Calls `function` as compiled by the family. Contract of vectorcall: a new reference, or null with an error set.
PyObject* call(const std::shared_ptr<Family>& family, PyFunctionObject* function, PyObject* const* args, size_t nargsf,
               PyObject* kwnames) noexcept;

/// The same for a frame that CPython has already made, or resumes. `taken`: the program did not call the function
/// through its entry.
PyObject* run_frame(const std::shared_ptr<Family>& family, PyThreadState* thread, cpython::LiveFrame frame,
                    bool taken) noexcept;

/// Makes a generator or coroutine that the family's function returned run as segments wherever it is resumed. False if
/// CPython is to run it.
bool own_generator(const std::shared_ptr<Family>& family, PyObject* made);

}  // namespace gramme::runtime
