// Checks of a tensor's Python class, and plain tensors for instances of subclasses. The includer needs no torch
// headers.
#pragma once
#include <Python.h>

#include "base/ref.h"

namespace gramme::aten {

/// True for a torch.Tensor (or subclass).
bool is_tensor(PyObject* object);
/// True for torch.Tensor and torch.nn.Parameter, not for subclasses.
bool is_exact_tensor_type(PyTypeObject* type);
/// A torch.Tensor that shares memory with an instance of a subclass. Autograd sees a view of it in any grad mode. Null
/// with an error set.
Owned<> plain_of(PyObject* tensor);
/// The same, with equal requires_grad and is_leaf, but detached: nothing leads back to the instance.
Owned<> plain_example(PyObject* tensor);

}  // namespace gramme::aten
