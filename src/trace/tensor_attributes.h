// Instance attributes of tensors: what `tensor.__dict__` holds. Tensor::attributes also has written slots and `.grad`.
#pragma once
#include "value/value.h"

namespace gramme::trace {

class Capture;

/// The attribute as it was stored in the capture; null if it was not.
value::Attribute* stored_attribute(value::Tensor* tensor, PyObject* name);
/// Guards that the capture does not know the tensor's dict as a dict of its own.
void note_dict(Capture& capture, value::Tensor* tensor);
/// An attribute of the instance, stored in the capture or existing. Null if there is none, which is guarded.
value::Value* instance_attribute(Capture& capture, value::Tensor* tensor, PyObject* name);
/// All of them, in the order of the dict. Guards the key set of an existing tensor.
value::Attributes instance_attributes(Capture& capture, value::Tensor* tensor);

}  // namespace gramme::trace
