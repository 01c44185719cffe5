// The Python classes of tensors, without torch headers in the includer.
#pragma once
#include <Python.h>

namespace gramme::aten {

/// Is it a torch.Tensor (or subclass)?
bool is_tensor(PyObject* object);
/// Is it torch.Tensor or torch.nn.Parameter, not a subclass?
bool is_exact_tensor_type(PyTypeObject* type);

}  // namespace gramme::aten
