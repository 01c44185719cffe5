// A backward over one call's nodes, without PyTorch's engine.
//
// For small models the engine, and the Python in front of it, take as long as the backward itself. Where the graph of a
// loss is that of one call and ends at leaves, there is nothing for the engine to order.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace gramme::native {

/// Does what `.backward()` of the tensor does. False, without effects, where a program can tell the difference.
bool run_directly(const at::Tensor& output);
/// The number of such backwards in the process.
uint64_t direct_backwards();

}  // namespace gramme::native
