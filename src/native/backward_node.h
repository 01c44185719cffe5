// The nodes of autograd that stand for the pieces of a graph.
#pragma once
#include <memory>
#include <vector>

#include "native/forward_call.h"

namespace gramme::native {

/// True if the node stands for a piece of a forward, or for what makes its results.
bool is_of_forward(const torch::autograd::Node& node);
/// Makes the first outputs (in the order of Layout::outputs) results of nodes whose edges to the inputs are given.
void hang(const std::shared_ptr<ForwardCall>& call, const std::vector<torch::autograd::Edge>& edges,
          const std::vector<at::Tensor>& outputs);

}  // namespace gramme::native
