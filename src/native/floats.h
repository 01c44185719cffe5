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

/// A float among the arguments of a step: where it is found, and its value now.
struct FloatOperand {
  Place::Kind kind;  // Object or Float
  int32_t index;
  double now;
};
/// Puts what is found in the places of the floats among the operator's arguments; false, and nothing done, if they are
/// not just these.
bool take_floats(const std::vector<FloatOperand>& floats, const Recorder& recorder, OperatorCall& call);

/// What an operator gets for a Python number.
c10::Scalar scalar_at(int32_t object, const Run& run);
/// The same of an argument that is one float.
c10::Scalar float_of(const OperatorArgument& argument, const Run& run);

}  // namespace gramme::native
