// Names of nodes as PyTorch Dynamo's torch.fx graph has them.
//
// A node is named after its target (add, add_1, linear) or its source (l_x_; s77 of a size, stride or offset), and
// again after the first variable that the program stores it in; names are never given back, so the order of events
// matters, those of dropped nodes included.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/graph.h"

namespace gramme::graph {

/// torch.fx's rules for unique names: no keyword, no builtin, numbered from the last number of the base.
class Namespace {
 public:
  std::string create(std::string_view candidate);
  bool used(const std::string& name) const { return used_.count(name) != 0; }
  /// Base name -> highest number given out.
  const std::unordered_map<std::string, int64_t>& counts() const { return counts_; }

 private:
  std::unordered_set<std::string> used_;
  std::unordered_map<std::string, int64_t> counts_;
};

struct Names {
  std::vector<std::string> node;    // by Node::id
  std::vector<std::string> first;   // by Node::id: the name before a variable gave it another, else empty
  std::vector<std::string> target;  // by Node::id, of placeholders: "L_x_"
  std::unordered_map<uint32_t, std::string> unmerged;  // by Node::id: of an input that was made again, the name before
  Namespace space;                                     // afterwards, to go on naming

  /// By which the bodies in the graph know a node: they were there before it was made again.
  const std::string& outside(const Node& node) const {
    const auto before = unmerged.find(node.id);
    return before == unmerged.end() ? this->node[node.id] : before->second;
  }
};

/// `around`: of the graph around, for a body.
Names assign_names(const Graph& graph, const Names* around = nullptr);
/// The names in a graph that is not finished, whatever is around it.
Names names_so_far(const Graph& graph);
/// Names in the graph around a body that is installed in `graph`, which is that or stands around it.
Names names_around(const Graph& body, const Graph& graph, const Names& names);

}  // namespace gramme::graph
