// Getters of tensor attributes (`torch.Tensor.shape.__get__`), which handlers of __torch_function__ receive.
#pragma once
#include <Python.h>

namespace gramme::trace {

/// The C attribute descriptor whose getter the object is; null for other objects. Each lookup of a getter makes a new,
/// equal object; one stands for all of them in a capture.
PyObject* attribute_of_getter(PyObject* object);

}  // namespace gramme::trace
