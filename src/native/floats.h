// Python floats that a program computes, between calls of operators: by C's arithmetic, which gives Python's bits.
#pragma once
#include <optional>

#include "native/python_call.h"
#include "native/recorder.h"

namespace gramme::native {

/// The call without Python's, where the step adds floats or the like, or reads the number in a tensor. What it does not
/// find as it is used to it leaves to Python. Null for any other step.
std::unique_ptr<PythonCall> float_call(const Step& step, const std::vector<Place>& places, const Place& result);
Invoke invoke_of_floats();

}  // namespace gramme::native
