// What torch's methods and attributes of tensors that change a leaf share.
#pragma once
#include "builtins/torch_support.h"

namespace gramme::builtins {

/// x.requires_grad = wanted, if it is another.
void set_requires_grad(Trace& trace, value::Tensor* tensor, bool wanted);
/// x.data = value.
void set_data(Trace& trace, value::Tensor* tensor, Value* value);

}  // namespace gramme::builtins
