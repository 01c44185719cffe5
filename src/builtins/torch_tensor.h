// Attributes of tensors.
#pragma once
#include "protocol/protocol.h"

namespace gramme::builtins {

/// x.name: a constant from the record, a node for another tensor (x.T, x.data), a stored attribute, or a method. Null
/// if there is no such attribute.
value::Value* tensor_attribute(trace::Trace& trace, value::Tensor* tensor, PyObject* name);
/// x.name = value; a null value deletes. Ends the segment for attributes of the tensor itself that are not modelled.
void set_tensor_attribute(trace::Trace& trace, value::Tensor* tensor, PyObject* name, value::Value* value);

}  // namespace gramme::builtins
