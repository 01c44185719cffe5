// Runs each half by changing the edges of border nodes before the engine runs. Gradients at border nodes are kept from
// the first half for the second.
#include "pipeline/halves.h"

#include <c10/util/Type.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <functional>
#include <unordered_set>

namespace gramme::pipeline {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Engine;
using torch::autograd::Node;
using torch::autograd::impl::gradient_edge;

/// Stores the gradients that a node receives.
struct Keep final : torch::autograd::FunctionPreHook {
  explicit Keep(variable_list& into) : into(into) {}
  variable_list operator()(const variable_list& gradients) override { return into = gradients; }

  variable_list& into;
};

/// True for nodes that PyTorch generates and the native executor's: they compute each result independently and may run
/// again while the graph is kept. Other nodes, and hooks, may have effects.
bool may_run_twice(Node& node) {
  const std::string type = c10::demangle(typeid(node).name());
  const bool is_known = type.starts_with("torch::autograd::generated::") ||
                        (type.starts_with("gramme::native::") && node.name() == "LinearBackward");
  return is_known && node.pre_hooks().empty() && node.tensor_pre_hooks().empty() && node.retains_grad_hooks().empty() &&
         node.post_hooks().empty();
}

/// All nodes in topological order: each after those that its edges lead to.
std::vector<Node*> from_the_leaves(const variable_list& roots) {
  std::vector<Node*> order;
  std::unordered_set<Node*> seen;
  std::vector<std::pair<Node*, size_t>> path;
  const auto enter = [&](const Edge& edge) {
    if (edge.is_valid() && seen.insert(edge.function.get()).second) path.emplace_back(edge.function.get(), 0);
  };
  for (const at::Tensor& root : roots) {
    enter(gradient_edge(root));
    while (!path.empty()) {
      auto& [node, next] = path.back();
      if (next < node->next_edges().size()) {
        enter(node->next_edge(next++));
      } else {
        order.push_back(node);
        path.pop_back();
      }
    }
  }
  return order;
}

void run(const edge_list& roots, const variable_list& gradients, bool keep_graph) {
  for (const Edge& root : roots) TORCH_CHECK(root.is_valid(), "a root of a backward needs no gradient");
  if (!roots.empty()) Engine::get_default_engine().execute(roots, gradients, keep_graph, false, true);
}

}  // namespace

Halves::Halves(const variable_list& roots, const variable_list& inputs) {
  std::unordered_set<Node*> above;  // nodes of inputs, and those from which an input is reached
  for (const at::Tensor& input : inputs) above.insert(gradient_edge(input).function.get());
  const auto is_above = [&](const Edge& edge) { return edge.is_valid() && above.contains(edge.function.get()); };
  for (Node* node : from_the_leaves(roots)) {
    const edge_list& edges = node->next_edges();
    if (above.contains(node) || std::none_of(edges.begin(), edges.end(), is_above)) continue;
    above.insert(node);
    Border border{c10::intrusive_ptr<Node>::reclaim_copy(node), edges, edges, {}};
    for (size_t i = 0; i < edges.size(); ++i) (is_above(edges[i]) ? border.to_weights : border.to_inputs)[i] = Edge();
    if (std::none_of(border.to_weights.begin(), border.to_weights.end(), std::mem_fn(&Edge::is_valid))) {
      only_inputs_.push_back(std::move(border.node));
      continue;
    }
    if (refusal_.empty() && !may_run_twice(*node)) refusal_ = node->name();
    borders_.push_back(std::move(border));
  }
  for (const at::Tensor& root : roots)
    if (const Edge edge = gradient_edge(root); !is_above(edge)) later_.emplace_back(edge.function.get(), edge.input_nr);
}

void Halves::run_inputs(const variable_list& roots, const variable_list& gradients) {
  edge_list now;
  variable_list found;
  for (size_t i = 0; i < roots.size(); ++i) {
    const Edge edge = gradient_edge(roots[i]);
    const bool is_later =
        std::find(later_.begin(), later_.end(), std::pair(edge.function.get(), edge.input_nr)) != later_.end();
    (is_later ? roots_ : now).push_back(edge);
    (is_later ? gradients_ : found).push_back(gradients[i]);
  }
  for (Border& border : borders_) {
    border.node->next_edges() = border.to_inputs;
    border.node->add_pre_hook(std::make_unique<Keep>(border.gradients));
  }
  run(now, found, true);
  for (Border& border : borders_) border.node->pre_hooks().clear();
  for (const auto& node : only_inputs_) node->release_variables();
  only_inputs_.clear();
}

void Halves::run_weights(const variable_list& roots, const variable_list& gradients) {
  for (size_t i = 0; i < roots.size(); ++i) {
    roots_.push_back(gradient_edge(roots[i]));
    gradients_.push_back(gradients[i]);
  }
  for (Border& border : std::exchange(borders_, {})) {
    border.node->next_edges() = border.to_weights;
    for (uint32_t i = 0; i < border.gradients.size(); ++i) {
      if (!border.gradients[i].defined()) continue;
      roots_.emplace_back(border.node, i);
      gradients_.push_back(std::move(border.gradients[i]));
    }
  }
  run(std::exchange(roots_, {}), std::exchange(gradients_, {}), false);
}

}  // namespace gramme::pipeline
