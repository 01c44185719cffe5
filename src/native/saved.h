// The tensors that autograd nodes have saved for their backward.
#pragma once
#include <torch/csrc/autograd/node.h>

#include <vector>

namespace gramme::native {

/// The tensors that formulas of the node find when they are called. Raises as they do if one was written since.
std::vector<at::Tensor> saved_by(const c10::intrusive_ptr<torch::autograd::Node>& node);

}  // namespace gramme::native
