// Builds the eager graph, connects it behind the call's nodes, and updates the running pass's dependency counts.
#include "training/graft.h"

#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "training/leaves.h"

namespace gramme::native {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::GraphTask;
using torch::autograd::Node;
using NodePtr = c10::intrusive_ptr<Node>;

std::vector<NodePtr> living_nodes(const ForwardCall& call) {
  std::vector<NodePtr> living;
  for (const auto& node : call.nodes) living.push_back(node.lock());
  return living;
}

/// Reconnects the cut graph, through the call's nodes where the program holds a result.
void join(EagerGraph& graph, const Layout& layout, const std::vector<NodePtr>& nodes) {
  std::vector<edge_list> edges(nodes.size());
  for (size_t p = 0; p < nodes.size(); ++p) {
    if (!nodes[p]) continue;  // the piece is unreachable
    edges[p] = nodes[p]->next_edges();
    for (size_t u = 0; u < edges[p].size(); ++u) {
      const Use& use = layout.pieces[p].uses[u];
      if (use.piece < 0) continue;
      const auto to = static_cast<size_t>(use.piece), slot = static_cast<size_t>(use.slot);
      if (layout.pieces[to].slots[slot].output == kNone) edges[p][u] = graph.slots(to)[slot];
    }
  }
  graph.join(edges);
}

void number(const EagerGraph& graph, const Layout& layout, uint64_t first) {
  size_t node = 0;
  for (const Piece& piece : layout.pieces)
    for (size_t i = 0; i < piece.nodes; ++i) graph.nodes()[node++]->set_sequence_nr(first + piece.number - 1 - i);
}

/// Does something before a node reads what it saved.
class BeforeNode final : public torch::autograd::FunctionPreHook {
 public:
  explicit BeforeNode(std::function<void()> act) : act_(std::move(act)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
    act_();
    return gradients;
  }
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs& /*args*/) const override {}

 private:
  const std::function<void()> act_;
};

/// Lets results that formulas saved lead to the nodes of the program's tensors.
void share_nodes(EagerGraph& graph, const ForwardCall& call) {
  for (size_t i = 0; i < call.ends.size(); ++i)
    if (NodePtr end = call.ends[i].node.lock())
      torch::autograd::impl::set_gradient_edge(graph.output(call.training->shown()[i]),
                                               Edge(std::move(end), call.ends[i].slot));
}

/// Lets nodes raise that saved a result to which the program has written. `again`: the graph is not that of the call
/// itself, whose results have the counters of the program's tensors, unless these show other versions.
void share_versions(EagerGraph& graph, const ForwardCall& call, bool again) {
  for (const Saver& saver : call.training->savers())
    for (Register saved : saver.saved) {
      const int32_t owner = call.training->owner(saved);
      if (owner < static_cast<int32_t>(call.inputs.size())) continue;  // inputs are the program's
      const auto counter = static_cast<size_t>(owner);
      const c10::VariableVersion theirs = call.counters[counter];
      c10::VariableVersion own =
          graph.output(call.training->shown()[counter - call.inputs.size()]).unsafeGetTensorImpl()->version_counter();
      if (!again && own.current_version() == theirs.current_version()) continue;
      const uint32_t behind = call.versions[counter] - own.current_version();
      graph.nodes()[saver.node]->add_pre_hook(std::make_unique<BeforeNode>(
          [theirs, own, behind]() mutable { own.set_version(theirs.current_version() - behind); }));
    }
}

/// Lets nodes raise as eager's checkpoint if an argument was written.
void share_checks(const EagerGraph& graph, ForwardCall& call) {
  if (!call.has_written_arguments()) return;
  const auto arguments = std::make_shared<const std::vector<torch::autograd::SavedVariable>>(call.take_arguments());
  for (const Saver& saver : call.training->savers())
    graph.nodes()[saver.node]->add_pre_hook(std::make_unique<BeforeNode>([arguments] {
      for (const auto& argument : *arguments) argument.unpack();
    }));
}

bool comes_to(const GraphTask& pass, const NodePtr& node) {
  return node && (pass.nodes_in_graph_.contains(node.get()) ||
                  std::ranges::find(pass.graph_roots_, node.get()) != pass.graph_roots_.end());
}

/// Removes the nodes' edges from the pass's bookkeeping.
void leave_pass(GraphTask& pass, const std::vector<NodePtr>& nodes) {
  uint64_t least = pass.exec_info_.empty() ? 0 : std::numeric_limits<uint64_t>::max();
  for (const auto& [node, wanted] : pass.exec_info_)  // the engine skips nodes that cannot lead to a wanted one
    if (wanted.should_execute()) least = std::min(least, node->topological_nr());
  for (const NodePtr& node : nodes) {
    if (!comes_to(pass, node) || node->topological_nr() < least) continue;
    for (const Edge& edge : node->next_edges()) {
      if (!edge.is_valid()) continue;
      const auto waits = pass.dependencies_.find(edge.function.get());
      if (waits != pass.dependencies_.end() && --waits->second == 0) pass.dependencies_.erase(waits);
    }
  }
}

/// Adds the nodes' edges, and all nodes behind them, to the pass's bookkeeping.
void enter_pass(GraphTask& pass, const std::vector<NodePtr>& nodes) {
  std::vector<Node*> queue, found;
  for (const NodePtr& node : nodes)
    if (comes_to(pass, node)) queue.push_back(node.get());
  for (size_t i = 0; i < queue.size(); ++i)
    for (const Edge& edge : queue[i]->next_edges()) {
      if (!edge.is_valid()) continue;
      ++pass.dependencies_[edge.function.get()];
      if (!pass.nodes_in_graph_.insert(edge.function.get()).second) continue;
      queue.push_back(edge.function.get());
      found.push_back(edge.function.get());
    }
  if (pass.exec_info_.empty()) return;
  std::ranges::sort(found, {}, &Node::sequence_nr);  // successors come before a node
  for (Node* node : found)
    pass.exec_info_[node].needed_ = std::ranges::any_of(node->next_edges(), [&](const Edge& edge) {
      const auto next = edge.is_valid() ? pass.exec_info_.find(edge.function.get()) : pass.exec_info_.end();
      return next != pass.exec_info_.end() && next->second.should_execute();
    });
}

/// Sets edges directly, keeping topological numbers, which are above those of all inputs anyway.
void lead_to(const EagerGraph& graph, const Layout& layout, const std::vector<NodePtr>& nodes) {
  for (size_t p = 0; p < nodes.size(); ++p) {
    if (!nodes[p]) continue;
    edge_list edges = graph.slots(p);
    for (size_t i = 0; i < edges.size(); ++i)
      if (layout.pieces[p].slots[i].output == kNone) edges[i] = {};
    nodes[p]->next_edges() = std::move(edges);
  }
}

/// Gives nodes of the call that waited only for other nodes of it an edge from `first`, so that the engine reaches
/// them.
void wake(GraphTask& pass, NodeOfForward& first, const Layout& layout, const std::vector<NodePtr>& nodes) {
  for (size_t p = 0; p < nodes.size(); ++p) {
    if (nodes[p].get() == &first || !comes_to(pass, nodes[p])) continue;
    const auto slot = std::ranges::find(layout.pieces[p].slots, kNone, &Slot::output);
    if (slot == layout.pieces[p].slots.end()) continue;
    first.next_edges().emplace_back(nodes[p], static_cast<uint32_t>(slot - layout.pieces[p].slots.begin()));
  }
}

}  // namespace

bool will_raise(const ForwardCall& call) {
  if (call.has_written_arguments()) return true;
  if (call.is_untouched()) return false;
  for (size_t p = 0; p < call.nodes.size(); ++p) {
    const NodePtr node = call.nodes[p].lock();
    if (!comes_to(current_pass(), node)) continue;
    std::vector<bool> wanted;
    for (const Edge& edge : node->next_edges()) wanted.push_back(is_wanted(edge));
    if (call.would_raise(p, wanted)) return true;
  }
  return false;
}

void change_edges(const std::vector<NodePtr>& nodes, const std::function<void(GraphTask&)>& change) {
  GraphTask& pass = current_pass();
  std::lock_guard<std::mutex> lock(pass.mutex_);
  leave_pass(pass, nodes);
  change(pass);
  enter_pass(pass, nodes);
}

void graft(NodeOfForward& node) {
  ForwardCall& call = *node.call;
  const Layout& layout = call.training->layout();
  const bool again = !call.graph;
  const std::unique_ptr<EagerGraph> graph = again ? call.run_again() : std::move(call.graph);
  const std::vector<NodePtr> nodes = living_nodes(call);
  join(*graph, layout, nodes);
  number(*graph, layout, call.first_number);
  share_nodes(*graph, call);
  // What a checkpoint's formulas save is its second forward's.
  call.training->recomputes() ? share_checks(*graph, call) : share_versions(*graph, call, again);
  for (size_t i = 0; i < call.released.size(); ++i)
    if (call.released[i]) graph->nodes()[call.training->savers()[i].node]->release_variables();
  change_edges(nodes, [&](GraphTask& pass) {
    lead_to(*graph, layout, nodes);
    wake(pass, node, layout, nodes);
  });
  call.grafted = true;
  call.inputs.assign(call.inputs.size(), {});
  call.kept.clear();
  call.before.clear();
}

}  // namespace gramme::native
