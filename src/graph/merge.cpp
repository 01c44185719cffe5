// Gives two bodies of one operator the same list of inputs.
#include <algorithm>

#include "graph/names.h"

namespace gramme::graph {

namespace {

std::vector<Node*> taken_by(const Graph& body) {
  std::vector<Node*> outers;
  for (const Node* input : body.placeholders())
    if (input->outer) outers.push_back(input->outer);
  return outers;
}

}  // namespace

void Graph::merge_inputs(Graph& left, const char* left_suffix, Graph& right, const char* right_suffix) {
  const std::vector<Node*> by_left = taken_by(left), by_right = taken_by(right);
  auto contains = [](const std::vector<Node*>& nodes, const Node* node) {
    return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
  };
  std::vector<Node*> both, only_left, only_right;
  for (Node* node : by_left) (contains(by_right, node) ? both : only_left).push_back(node);
  for (Node* node : by_right)
    if (!contains(by_left, node)) only_right.push_back(node);

  std::vector<std::pair<Node*, const char*>> merged;
  Names names;
  if (std::max({both.size(), only_left.size(), only_right.size()}) > 1) names = names_so_far(*this);
  auto append = [&](std::vector<Node*>& nodes, const char* suffix) {
    if (nodes.size() > 1)
      std::ranges::sort(nodes, {}, [&](const Node* node) -> const std::string& { return names.node[node->id]; });
    for (Node* node : nodes) merged.emplace_back(node, suffix);
  };
  append(both, "");
  append(only_left, left_suffix);
  append(only_right, right_suffix);
  left.take_inputs(merged);
  right.take_inputs(merged);
}

/// Makes these the body's inputs from outside, in this order.
void Graph::take_inputs(const std::vector<std::pair<Node*, const char*>>& outers) {
  std::vector<Node*> inputs;
  for (Node* input : placeholders_)
    if (!input->outer) inputs.push_back(input);
  const std::vector<Node*> before = placeholders_;
  for (auto [outer, suffix] : outers) {
    const auto known = std::ranges::find_if(before, [&](Node* input) { return input->outer == outer; });
    Node* input = known != before.end() ? *known : lift(outer);
    if (known == before.end()) events_.pop_back();  // the event below stands for it too
    input->effect = true;
    events_.push_back({input, nullptr, suffix});
    inputs.push_back(input);
  }
  placeholders_ = std::move(inputs);
}

}  // namespace gramme::graph
