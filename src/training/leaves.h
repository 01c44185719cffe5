// Delivers leaf gradients to .grad directly from the node that makes them.
//
// The engine takes longer to deliver a gradient to .grad than kernels take to compute it. So the node does it where
// that is unobservable: this is the only pass over the graph, which is freed afterwards; no other node has a gradient
// for the leaf; and there are no hooks but a reducer's. The edges are removed for the rest of the pass.
//
// DistributedDataParallel's reducer sums gradients of several processes while the backward of others runs, in an order
// that it learns from a pass. So the node calls its hooks as soon as a gradient is in .grad, and in the engine's order.
// Where it cannot, autograd's own nodes take over (graft.h).
#pragma once
#include <torch/csrc/autograd/graph_task.h>

#include "training/forward_call.h"

namespace gramme::native {

/// True if the edge leads to a leaf's AccumulateGrad.
bool is_leaf(const torch::autograd::Edge& edge);
/// Whose hooks see gradients arrive at a leaf. Nobody's also at what is no leaf.
enum class Listener : uint8_t { Nobody, Reducer, Program };
Listener listener_at(const torch::autograd::Edge& edge);

/// The running pass of the engine; PyTorch's API exposes only single members of it.
torch::autograd::GraphTask& current_pass();
/// True if the running pass delivers a gradient along the edge.
bool is_wanted(const torch::autograd::Edge& edge);
/// True if the running pass is the only one over the forward's nodes; records the pass.
bool is_only_pass(const std::shared_ptr<ForwardCall>& call);
/// By use: whether its edge leads to a leaf that has no other edge from the node, and no hooks but a reducer's. Empty
/// if there is none, or if two edges lead to one leaf. `leaves`: those leaves, sorted.
std::vector<bool> edges_to_leaves(const NodeOfForward& node, size_t piece,
                                  std::vector<const torch::autograd::Node*>& leaves);
/// The same for the running pass: empty also if another node of it leads to one of the leaves.
std::vector<bool> quiet_edges(const NodeOfForward& node, size_t piece);
/// True if the call's nodes can deliver all gradients that hooks see. Otherwise a reducer would hear of them in another
/// order than autograd's.
bool delivers_all_that_is_heard(const ForwardCall& call);
/// True if hooks of the program see a gradient of the running pass arrive at a leaf.
bool is_heard_by_program(const ForwardCall& call);
/// Removes these edges from the node.
void take_edges(NodeOfForward& node, const std::vector<bool>& quiet);

/// Accumulates leaf gradients as the engine does, and calls a reducer's hooks.
class Delivery {
 public:
  /// `quiet`: the uses that will be delivered.
  Delivery(NodeOfForward& node, const std::vector<bool>& quiet);
  /// True if a reducer hears of them.
  bool is_heard() const { return !heard_.empty(); }
  /// Takes a gradient. What a reducer hears of waits for those before it.
  void take(size_t use, at::Tensor&& gradient);
  /// Call when no further gradient comes: the reducer hears of the leaves that have none, too.
  void finish();

 private:
  void deliver(size_t use, at::Tensor&& gradient);
  void deliver_waiting(bool all);

  struct Heard {
    size_t use;
    bool arrived = false;
    at::Tensor gradient;
  };
  NodeOfForward& node_;
  const c10::impl::LocalDispatchKeySet modes_;
  std::vector<Heard> heard_;  // by use, in the engine's order
  size_t next_ = 0;           // the first that is not delivered
};

}  // namespace gramme::native
