// Arithmetic on Python floats between operator calls, in C, with Python's bits.
#pragma once
#include <optional>

#include "record/recorder.h"
#include "tape/python_call.h"

namespace gramme::native {

/// A call that computes a step in C if it is float arithmetic or reads a tensor's number; unexpected operands are left
/// to Python. Null for other steps.
std::unique_ptr<PythonCall> float_call(const Step& step, const std::vector<Place>& places, const Place& result);
Invoke invoke_of_floats();

}  // namespace gramme::native
