// Delivers leaf gradients to .grad directly from the node that makes them.
//
// The engine takes longer to deliver a gradient to .grad than kernels take to compute it. So the node does it where
// that is unobservable: this is the only pass over the graph, which is freed afterwards; no other node has a gradient
// for the leaf; and there are no hooks. The edges are removed for the rest of the pass.
#pragma once
#include <torch/csrc/autograd/graph_task.h>

#include "training/forward_call.h"

namespace gramme::native {

/// The running pass of the engine; PyTorch's API exposes only single members of it.
torch::autograd::GraphTask& current_pass();
/// True if the running pass is the only one over the forward's nodes; records the pass.
bool is_only_pass(const std::shared_ptr<ForwardCall>& call);
/// By use: whether its edge leads to a leaf that no other edge of the pass leads to. Empty if there is none.
std::vector<bool> quiet_edges(const NodeOfForward& node, size_t piece);
/// Removes these edges from the node.
void take_edges(NodeOfForward& node, const std::vector<bool>& quiet);

/// Accumulates leaf gradients as the engine does.
class Delivery {
 public:
  explicit Delivery(NodeOfForward& node);
  void operator()(size_t use, at::Tensor&& gradient);

 private:
  NodeOfForward& node_;
  const c10::impl::LocalDispatchKeySet modes_;
};

}  // namespace gramme::native
