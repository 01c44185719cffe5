// What programs have written on a tensor: marks of torch._dynamo.mark_dynamic and its like, attributes of their own.
#pragma once
#include "base/ref.h"
#include "cpython/objects.h"

namespace gramme::guards {

/// A tuple of frozensets of dimensions, one for each kind of mark, None where there is none; None if there is no mark.
Owned<> marks_of(PyObject* tensor);
/// True if each kind of mark is absent, or no wider than in what marks_of() gave for another tensor. Runs no Python.
bool are_marks_within(PyObject* tensor, PyObject* marks);
/// True if torch._dynamo.mark_static_address(guard=True) said that captures are for this very tensor.
bool has_guarded_address(PyObject* tensor);
/// True if none of the tensor's own attributes has the name of one of its class that they would hide. Those of data
/// descriptors they do not. Runs no Python.
bool hides_nothing(PyObject* tensor);
/// True if the tensor may have attributes of its own.
[[gnu::always_inline]] inline bool may_have_attributes(PyObject* tensor) {
  if (cpython::has_inline_values(tensor)) return cpython::inline_count(tensor) != 0;
  return cpython::instance_dict_if_any(tensor) != nullptr;
}

}  // namespace gramme::guards
