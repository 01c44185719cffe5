// Tensors of classes with a __torch_dispatch__ which say of what they are made.
#pragma once
#include "builtins/torch_support.h"

namespace gramme::builtins {

/// An attribute of a wrapper that an operation of the segment made; null if it has none of the name. `member`: the
/// descriptor of its slot, or null for one in its dict.
Value* wrapper_attribute(Trace& trace, value::Tensor* wrapper, PyObject* member, PyObject* name);

}  // namespace gramme::builtins
