// Arrays of NumPy as subscripts of tensors.
#pragma once
#include "protocol/protocol.h"

namespace gramme::protocol {

/// The tensor that PyTorch takes the array for, to look up by it: indices of int64 or a mask in the array's memory,
/// others copied to int64. Null of what is no array, of a number in one, and of arrays that are refused, warned of, or
/// not laid out like a tensor.
Value* key_of_array(Trace& trace, const value::Tensor* indexed, Value* key);

}  // namespace gramme::protocol
