// NumPy arrays as subscripts of tensors.
#pragma once
#include "protocol/protocol.h"

namespace gramme::protocol {

/// The tensor that PyTorch indexes by for an array: int64 indices and masks share the array's memory, other ints are
/// copied to int64. Null for values that are no array, for NumPy scalars, and for arrays that PyTorch refuses, warns
/// about, or cannot share.
Value* key_of_array(Trace& trace, const value::Tensor* indexed, Value* key);

}  // namespace gramme::protocol
