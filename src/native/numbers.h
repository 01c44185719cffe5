// Python numbers among the arguments of arithmetic operators, converted to tensors once.
#pragma once
#include <unordered_map>

#include "native/assemble.h"

namespace gramme::native {

/// x + 2 makes a tensor of the 2, of type int64, which each call would convert to x's type; here are those that are
/// converted beforehand, by register. Only where the kernels use the converted value too: not for types of less
/// precision than float32, whose kernels read the original.
std::unordered_map<Register, at::Tensor> converted_numbers(const Assembly& assembly);

}  // namespace gramme::native
