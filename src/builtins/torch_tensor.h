// Attributes of tensors.
#pragma once
#include "protocol/protocol.h"

namespace gramme::builtins {

/// x.name: constants from the tensor's record, nodes for other tensors (x.T, x.data), what the program stored, or a
/// method. Null if there is no such attribute.
value::Value* tensor_attribute(trace::Trace& trace, value::Tensor* tensor, PyObject* name);
/// x.name = value; a null value deletes. Ends the segment for what changes the tensor itself (data, requires_grad, …).
void set_tensor_attribute(trace::Trace& trace, value::Tensor* tensor, PyObject* name, value::Value* value);

}  // namespace gramme::builtins
