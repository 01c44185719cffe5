// The Python classes of tensors that are no subclass of anybody's making.
#pragma once
#include "base/ref.h"

namespace gramme::aten {

/// torch.nn.Parameter.
PyTypeObject* parameter_type();

/// Is the object, a tensor, a torch.Tensor or a torch.nn.Parameter itself?
bool has_plain_class(PyObject* tensor);

}  // namespace gramme::aten
