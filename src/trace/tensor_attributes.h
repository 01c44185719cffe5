// Instance attributes of tensors: what `tensor.__dict__` holds. Tensor::attributes also has written slots and `.grad`.
#pragma once
#include "value/value.h"

namespace gramme::trace {

class Capture;
class Classes;
class KnownObjects;

/// Ends the segment if the program also uses the tensor's dict as a dict of its own: it would have two states.
void note_dict(KnownObjects& objects, value::Tensor* tensor);
/// True for names of Tensor::attributes that no dict holds: slots, and the gradient.
bool is_outside_dict(Classes& classes, value::Tensor* tensor, PyObject* name);
/// An attribute of the instance, stored in the capture or existing. Null if there is none, which is guarded.
value::Value* instance_attribute(Capture& capture, value::Tensor* tensor, PyObject* name);
/// Ends the segment for a wrapper that an operation made, whose class may have put anything into its dict.
void refuse_unknown_dict(const value::Tensor* tensor);

}  // namespace gramme::trace
