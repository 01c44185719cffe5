// Checks that delivering a gradient directly is unobservable, and accumulates it as AccumulateGrad does.
#include "training/leaves.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include <algorithm>
#include <cstddef>
#include <typeinfo>
#include <utility>

#include "tape/invoke.h"

namespace gramme::native {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::Edge;
using torch::autograd::GraphTask;
using torch::autograd::Node;

/// True for the hooks in C++ of a reducer; those of programs are in Python.
bool is_reducers(const std::unique_ptr<torch::autograd::FunctionPostHook>& hook) {
  const torch::autograd::FunctionPostHook& of = *hook;
  return typeid(of) == typeid(torch::autograd::utils::LambdaPostHook);
}

/// The limit of foreign edges that are searched for the same leaves.
constexpr size_t kForeignEdges = 64;

struct PassEnd {
  explicit PassEnd(std::shared_ptr<ForwardCall> call) : call(std::move(call)), pass(this->call->pass) {}
  ~PassEnd() { end(); }
  PassEnd(const PassEnd&) = delete;
  /// Restores the edges that were taken.
  void end() const;
  const std::shared_ptr<ForwardCall> call;
  const int pass;
};

void PassEnd::end() const {
  std::lock_guard<std::recursive_mutex> lock(call->mutex);
  if (call->pass != pass) return;
  for (ForwardCall::TakenEdge& edge : call->taken)
    if (auto node = edge.node.lock()) node->next_edges()[edge.index] = std::move(edge.edge);
  call->taken.clear();
  call->reached.reset();
  call->pass = -1;
}

std::vector<const Node*> reached_leaves(const ForwardCall& call) {
  std::vector<const Node*> reached;
  for (const Node* root : current_pass().graph_roots_)
    if (root->num_outputs() == 0) reached.push_back(root);
  for (const Node* node : *torch::autograd::get_current_graph_task_nodes_in_graph()) {
    if (node->num_outputs() == 0) continue;
    const auto* const own = dynamic_cast<const NodeOfForward*>(node);
    if (own && own->call.get() == &call) continue;
    for (const Edge& edge : node->next_edges())
      if (edge.is_valid() && edge.function->num_outputs() == 0) reached.push_back(edge.function.get());
    if (reached.size() > kForeignEdges) break;
  }
  return reached;
}

/// True if nodes of other forwards, or the pass itself, lead to one of the leaves, or if there are too many edges to
/// tell.
bool is_any_reached(ForwardCall& call, const std::vector<const Node*>& leaves) {
  std::lock_guard<std::recursive_mutex> lock(call.mutex);
  if (!call.reached) call.reached = reached_leaves(call);
  return call.reached->size() > kForeignEdges ||
         std::ranges::any_of(*call.reached, [&](const Node* leaf) { return std::ranges::binary_search(leaves, leaf); });
}

}  // namespace

bool is_leaf(const Edge& edge) {
  const Node& node = *edge.function;
  return typeid(node) == typeid(AccumulateGrad);
}

Listener listener_at(const Edge& edge) {
  if (!is_leaf(edge)) return Listener::Nobody;
  auto* const leaf = static_cast<AccumulateGrad*>(edge.function.get());
  if (!leaf->pre_hooks().empty() || !leaf->tensor_pre_hooks().empty() || !leaf->retains_grad_hooks().empty() ||
      leaf->tensor_post_acc_grad_hooks() != nullptr)
    return Listener::Program;
  if (leaf->post_hooks().empty()) return Listener::Nobody;
  const bool known = leaf->variable.is_cpu() && std::ranges::all_of(leaf->post_hooks(), is_reducers);
  return known ? Listener::Reducer : Listener::Program;
}

GraphTask& current_pass() {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
  constexpr size_t kOffset = offsetof(GraphTask, nodes_in_graph_);
#pragma GCC diagnostic pop
  const auto* nodes = reinterpret_cast<const char*>(torch::autograd::get_current_graph_task_nodes_in_graph());
  return *reinterpret_cast<GraphTask*>(const_cast<char*>(nodes) - kOffset);
}

bool is_wanted(const Edge& edge) {
  if (!edge.is_valid()) return false;
  const auto* const chosen = torch::autograd::get_current_graph_task_exec_info();
  if (!chosen || chosen->empty()) return true;
  const auto found = chosen->find(edge.function.get());
  return found != chosen->end() && found->second.should_execute();
}

bool is_heard_by_program(const ForwardCall& call) {
  return std::ranges::any_of(call.nodes, [](const c10::weak_intrusive_ptr<Node>& weak) {
    const c10::intrusive_ptr<Node> node = weak.lock();
    return node && std::ranges::any_of(node->next_edges(), [](const Edge& edge) {
             return is_wanted(edge) && listener_at(edge) == Listener::Program;
           });
  });
}

bool is_only_pass(const std::shared_ptr<ForwardCall>& call) {
  const int pass = torch::autograd::get_current_graph_task_id();
  if (call->pass == pass) return !call->passes_overlap;
  if (call->pass >= 0) call->passes_overlap = true;
  if (call->passes_overlap) return false;
  call->pass = pass;
  auto end = std::make_shared<const PassEnd>(call);  // destroyed with the engine's state of the pass, however it ends
  torch::autograd::Engine::get_default_engine().queue_callback([end] { end->end(); });
  return true;
}

Delivery::Delivery(NodeOfForward& node, const std::vector<bool>& quiet)
    : node_(node), modes_(c10::impl::tls_local_dispatch_key_set()) {
  for (size_t use = 0; use < quiet.size(); ++use)
    if (quiet[use] && !node.next_edge(use).function->post_hooks().empty()) heard_.push_back({use, false, {}});
}

void Delivery::take(size_t use, at::Tensor&& gradient) {
  const auto heard = std::ranges::lower_bound(heard_, use, {}, &Heard::use);
  if (heard == heard_.end() || heard->use != use) return deliver(use, std::move(gradient));
  heard->arrived = true;
  heard->gradient = std::move(gradient);
  deliver_waiting(false);
}

void Delivery::finish() { deliver_waiting(true); }

void Delivery::deliver_waiting(bool all) {
  while (next_ < heard_.size() && (all || heard_[next_].arrived)) {
    Heard& heard = heard_[next_++];
    deliver(heard.use, std::move(heard.gradient));
  }
}

void Delivery::deliver(size_t use, at::Tensor&& gradient) {
  c10::impl::ForceDispatchKeyGuard outer(modes_);
  torch::autograd::variable_list one(1);
  one[0] = std::move(gradient);
  auto& leaf = static_cast<AccumulateGrad&>(*node_.next_edge(use).function);
  const bool heard = !leaf.post_hooks().empty();
  {
    const at::AutoDispatchBelowAutograd below;
    leaf.apply(heard ? torch::autograd::variable_list(one) : std::move(one));
  }
  torch::autograd::variable_list none;
  for (const auto& hook : leaf.post_hooks()) none = (*hook)(none, one);
}

void take_edges(NodeOfForward& node, const std::vector<bool>& quiet) {
  if (quiet.empty()) return;
  std::lock_guard<std::recursive_mutex> lock(node.call->mutex);
  for (size_t i = 0; i < quiet.size(); ++i)
    if (quiet[i])
      node.call->taken.push_back(
          {c10::weak_intrusive_ptr<Node>(node.getptr()), i, std::exchange(node.next_edges()[i], {})});
}

std::vector<bool> edges_to_leaves(const NodeOfForward& node, size_t index, std::vector<const Node*>& leaves) {
  const Training& training = *node.call->training;
  const Piece& piece = training.layout().pieces[index];
  std::vector<bool> quiet(piece.uses.size());
  for (size_t i = 0; i < piece.uses.size(); ++i) {
    const Edge& edge = node.next_edge(i);
    const int32_t input = piece.uses[i].input;
    if (input < 0 || !edge.is_valid() || !training.is_used_once(input) || !training.is_once(index, i)) continue;
    if (!is_leaf(edge) || listener_at(edge) == Listener::Program) continue;
    quiet[i] = true;
    leaves.push_back(edge.function.get());
  }
  std::ranges::sort(leaves);
  bool shared = std::ranges::adjacent_find(leaves) != leaves.end();  // the same tensor as several inputs
  for (size_t i = 0; i < quiet.size(); ++i)
    shared |= !quiet[i] && std::ranges::binary_search(leaves, node.next_edge(i).function.get());
  return leaves.empty() || shared ? std::vector<bool>() : quiet;
}

std::vector<bool> quiet_edges(const NodeOfForward& node, size_t index) {
  const auto* const chosen = torch::autograd::get_current_graph_task_exec_info();
  if (torch::autograd::get_current_graph_task_keep_graph() || !chosen || !chosen->empty() || !unwatched() ||
      !node.post_hooks().empty())
    return {};
  std::vector<const Node*> leaves;
  std::vector<bool> quiet = edges_to_leaves(node, index, leaves);
  if (!quiet.empty() && is_any_reached(*node.call, leaves)) return {};
  return quiet;
}

bool delivers_all_that_is_heard(const ForwardCall& call) {
  const auto* const chosen = torch::autograd::get_current_graph_task_exec_info();
  auto is_called = [&](const Node& leaf) {  // torch.autograd.grad takes gradients in front of the leaf
    if (!chosen || chosen->empty()) return true;
    const auto found = chosen->find(const_cast<Node*>(&leaf));
    return found != chosen->end() && found->second.needed_;
  };
  for (size_t p = 0; p < call.nodes.size(); ++p) {
    const c10::intrusive_ptr<Node> node = call.nodes[p].lock();
    if (!node) continue;  // the pass does not come there
    const std::vector<bool> quiet = quiet_edges(static_cast<const NodeOfForward&>(*node), p);
    for (size_t i = 0; i < node->num_outputs(); ++i) {
      const Edge& edge = node->next_edge(i);
      const bool taken = !quiet.empty() && quiet[i];
      if (!edge.is_valid() || taken || listener_at(edge) == Listener::Nobody) continue;
      if (is_called(*edge.function)) return false;
    }
  }
  return true;
}

}  // namespace gramme::native
