// Getters of tensors' attributes, as handlers of __torch_function__ are shown them.
#pragma once
#include <Python.h>

namespace gramme::trace {

/// The attribute in C of which the object is the getter, `torch.Tensor.shape.__get__`; null if it is something else.
/// Each look-up of a getter makes another object, which equals the others: one stands for all of them in a capture.
PyObject* attribute_of_getter(PyObject* object);

}  // namespace gramme::trace
