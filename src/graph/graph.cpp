#include "graph/graph.h"

#include <algorithm>

namespace gramme::graph {

Node* Graph::placeholder(const source::Source* source, const meta::Record* record, const Position* position) {
  Node* node = arena_.make<Node>();
  node->kind = Node::Placeholder;
  node->id = next_id_++;
  node->source = source;
  node->record = record;
  node->position = position;
  node->module = module_;
  placeholders_.push_back(node);
  events_.push_back({node, nullptr});
  return node;
}

Node* Graph::call(const meta::Call& call, const Position* position) {
  Node* node = arena_.make<Node>();
  node->kind = call.kind == meta::Call::Function ? Node::CallFunction : Node::CallMethod;
  node->id = next_id_++;
  node->call = call;
  node->position = position;
  node->module = module_;
  meta::each_leaf(node->call, [](const meta::Argument& leaf) { ++leaf.node->uses; });
  nodes_.push_back(node);
  events_.push_back({node, nullptr});
  return node;
}

void Graph::hint(Node* node, PyObject* variable) {
  if (node->hinted || node->kind == Node::Placeholder) return;
  node->hinted = true;
  events_.push_back({node, variable});
}

const ModuleCall* Graph::enter(PyObject* module, const source::Source* path) {
  const ModuleCall* before = module_;
  module_ = arena_.make<ModuleCall>(module, path, calls_by_path_[path]++, before);
  return before;
}

void Graph::remove_dead() {
  auto dead = [](const Node* node) { return node->uses == 0 && !node->output && !node->effect; };
  for (size_t i = nodes_.size(); i-- > 0;) {
    if (!dead(nodes_[i])) continue;
    meta::each_leaf(nodes_[i]->call, [](const meta::Argument& leaf) { --leaf.node->uses; });
    nodes_[i] = nullptr;
  }
  std::erase(nodes_, nullptr);
  std::erase_if(placeholders_, [](const Node* node) { return node->uses == 0 && !node->output; });
}

}  // namespace gramme::graph
