// Autograd nodes for the pieces of a recorded backward.
#pragma once
#include <memory>
#include <vector>

#include "training/forward_call.h"

namespace gramme::native {

/// True for such a node, or an Entry in front of one.
bool is_of_forward(const torch::autograd::Node& node);
/// Attaches nodes to the first outputs (in the order of Layout::outputs); `edges` are those to the inputs.
void hang(const std::shared_ptr<ForwardCall>& call, const std::vector<torch::autograd::Edge>& edges,
          const std::vector<at::Tensor>& outputs);

}  // namespace gramme::native
