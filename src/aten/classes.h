// The Python classes of tensors, without torch headers in the includer.
#pragma once
#include <Python.h>

#include "base/ref.h"

namespace gramme::aten {

/// True for a torch.Tensor (or subclass).
bool is_tensor(PyObject* object);
/// True for torch.Tensor and torch.nn.Parameter, not for subclasses.
bool is_exact_tensor_type(PyTypeObject* type);
/// A torch.Tensor with the memory of one of a subclass: to autograd a view, whatever the grad mode is. Null with an
/// error set.
Owned<> plain_of(PyObject* tensor);
/// The like of it, of which nothing leads to the one of the subclass.
Owned<> plain_example(PyObject* tensor);

}  // namespace gramme::aten
