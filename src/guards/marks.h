// What programs have written on a tensor: marks of torch._dynamo.mark_dynamic and its like, attributes of their own.
#pragma once
#include "base/ref.h"
#include "cpython/objects.h"

namespace gramme::guards {

/// A tuple of frozensets of dimensions, one for each kind of mark, None where there is none; None if there is no mark.
Owned<> marks_of(PyObject* tensor);
/// Is each kind of mark absent, or no wider than in what marks_of() gave for another tensor? Runs no Python.
bool are_marks_within(PyObject* tensor, PyObject* marks);
/// Did torch._dynamo.mark_static_address(guard=True) say that captures are for this very tensor?
bool has_guarded_address(PyObject* tensor);
/// Has none of the tensor's own attributes the name of one of its class that they would hide? Those of data descriptors
/// they do not. Runs no Python.
bool hides_nothing(PyObject* tensor);
/// May the tensor have attributes of its own?
[[gnu::always_inline]] inline bool may_have_attributes(PyObject* tensor) {
  if (cpython::has_inline_values(tensor)) return cpython::inline_count(tensor) != 0;
  return cpython::instance_dict_if_any(tensor) != nullptr;
}

}  // namespace gramme::guards
