// Reads the tensors that autograd nodes saved for their backward.
#pragma once
#include <torch/csrc/autograd/node.h>

#include <vector>

namespace gramme::native {

/// The node's saved tensors as its formulas would unpack them. Raises as they do if one was written since.
std::vector<at::Tensor> saved_by(const c10::intrusive_ptr<torch::autograd::Node>& node);

}  // namespace gramme::native
