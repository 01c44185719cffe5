// Gradients of leaves, brought to .grad by the node that makes them.
//
// The engine takes longer to bring a gradient to .grad than kernels take to make it. Where nobody can tell the
// difference the node does that itself: this is the only pass over the graph, which will be gone after it; no other
// node has a gradient for the leaf; nobody hears of any of it. The edges are taken away for the rest of the pass.
#pragma once
#include <torch/csrc/autograd/graph_task.h>

#include "native/forward_call.h"

namespace gramme::native {

/// The engine's pass under way, of which PyTorch gives out members alone.
torch::autograd::GraphTask& current_pass();
/// True if the pass under way is the only one over the nodes of the forward. They note it.
bool is_only_pass(const std::shared_ptr<ForwardCall>& call);
/// By use: does its edge lead to a leaf that no other edge of the pass leads to? Empty: none does.
std::vector<bool> quiet_edges(const NodeOfForward& node, size_t piece);
/// Takes them from the node.
void take_edges(NodeOfForward& node, const std::vector<bool>& quiet);

/// Does what the engine does with gradients of leaves.
class Delivery {
 public:
  explicit Delivery(NodeOfForward& node);
  void operator()(size_t use, at::Tensor&& gradient);

 private:
  NodeOfForward& node_;
  const c10::impl::LocalDispatchKeySet modes_;
};

}  // namespace gramme::native
