// Builds the eager graph, connects it behind the call's nodes, and updates the running pass's dependency counts.
#include "training/graft.h"

#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <limits>
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

/// Makes results that formulas saved share nodes and version counters with the program's tensors.
void share_outputs(EagerGraph& graph, const ForwardCall& call) {
  const std::vector<Register>& shown = call.training->shown();
  for (size_t i = 0; i < shown.size(); ++i) {
    at::Tensor& output = graph.output(shown[i]);
    if (i < call.ends.size())
      if (NodePtr end = call.ends[i].node.lock())
        torch::autograd::impl::set_gradient_edge(output, Edge(std::move(end), call.ends[i].slot));
    const auto given = call.shown[i].lock();
    if (!given) continue;
    const size_t counter = call.inputs.size() + i;
    c10::TensorImpl* const own = output.unsafeGetTensorImpl();
    const uint32_t now = call.counters[counter].current_version();
    for (uint32_t v = call.versions[counter]; output._version() != now && v != now; ++v) own->bump_version();
    given->set_version_counter(own->version_counter());
  }
}

bool comes_to(const GraphTask& pass, const NodePtr& node) {
  return node && (pass.nodes_in_graph_.contains(node.get()) ||
                  std::ranges::find(pass.graph_roots_, node.get()) != pass.graph_roots_.end());
}

/// Removes the nodes' edges from the pass's bookkeeping.
void leave_pass(GraphTask& pass, const std::vector<NodePtr>& nodes) {
  uint64_t least = pass.exec_info_.empty() ? 0 : std::numeric_limits<uint64_t>::max();
  for (const auto& [node, wanted] : pass.exec_info_)  // the engine skips nodes that cannot lead to a wanted one
    if (wanted.captures_) least = std::min(least, node->topological_nr());
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
  const std::unique_ptr<EagerGraph> graph = call.graph ? std::move(call.graph) : call.run_again();
  const std::vector<NodePtr> nodes = living_nodes(call);
  join(*graph, layout, nodes);
  number(*graph, layout, call.first_number);
  share_outputs(*graph, call);
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
