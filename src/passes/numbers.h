// Converts Python numbers among arithmetic operators' arguments to tensors once.
#pragma once
#include <unordered_map>

#include "passes/assemble.h"

namespace gramme::native {

/// x + 2 makes an int64 tensor of the 2, which each call converts to x's type. Returns the converted tensors by
/// register. Only where kernels use the converted value too: not for types below float32, whose kernels read the
/// original.
std::unordered_map<Register, at::Tensor> converted_numbers(const Assembly& assembly);

}  // namespace gramme::native
