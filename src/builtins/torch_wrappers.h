// Attributes of wrappers: tensors whose class has __torch_dispatch__ and __tensor_flatten__.
#pragma once
#include "builtins/torch_support.h"

namespace gramme::builtins {

/// The fake result of the operation of the segment that made the wrapper; null for other tensors.
PyObject* likeness_of(Trace& trace, const value::Tensor* wrapper);
/// An attribute of a wrapper that an operation of the segment made; null if it has none of that name. `member` is the
/// slot's descriptor, or null for an attribute in the dict.
Value* wrapper_attribute(Trace& trace, value::Tensor* wrapper, PyObject* member, PyObject* name);

}  // namespace gramme::builtins
