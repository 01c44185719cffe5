// Attributes that programs set on a tensor: the marks of torch._dynamo.mark_dynamic and its like, and their own.
#pragma once
#include "base/ref.h"
#include "cpython/objects.h"

namespace gramme::guards {

/// A tuple of frozensets of dimensions, one for each kind of mark (None for an absent kind); None if there is no mark.
Owned<> marks_of(PyObject* tensor);
/// True if each kind of mark is absent, or a subset of that kind in `marks`, a result of marks_of(). Runs no Python.
bool are_marks_within(PyObject* tensor, PyObject* marks);
/// True if torch._dynamo.mark_static_address(guard=True) restricts captures to this very tensor.
bool has_guarded_address(PyObject* tensor);
/// True if no attribute of the tensor's own hides one of its class. Data descriptors cannot be hidden. Runs no Python.
bool hides_nothing(PyObject* tensor);
/// True if the tensor may have attributes of its own.
[[gnu::always_inline]] inline bool may_have_attributes(PyObject* tensor) {
  if (cpython::has_inline_values(tensor)) return cpython::inline_count(tensor) != 0;
  return cpython::instance_dict_if_any(tensor) != nullptr;
}

}  // namespace gramme::guards
