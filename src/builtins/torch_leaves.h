// Helpers shared by the methods and attributes that change a leaf.
#pragma once
#include "builtins/torch_support.h"

namespace gramme::builtins {

/// x.requires_grad = wanted, if that differs.
void set_requires_grad(Trace& trace, value::Tensor* tensor, bool wanted);
/// x.data = value.
void set_data(Trace& trace, value::Tensor* tensor, Value* value);

}  // namespace gramme::builtins
