// Names nodes exactly as PyTorch Dynamo's torch.fx graph does.
//
// A node is named after its target (add, add_1, linear) or its source (l_x_; s77 for a size, stride or offset), and
// again after the first variable that the program stores it in. Names are never freed, so the order of all events
// matters, including those of dropped nodes.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/graph.h"

namespace gramme::graph {

/// torch.fx's rules for unique names: no keyword or builtin, and numbers continue from the last one of the base name.
class Namespace {
 public:
  std::string create(std::string_view candidate);
  bool used(const std::string& name) const { return used_.count(name) != 0; }
  /// Base name -> highest number used.
  const std::unordered_map<std::string, int64_t>& counts() const { return counts_; }

 private:
  std::unordered_set<std::string> used_;
  std::unordered_map<std::string, int64_t> counts_;
};

struct Names {
  std::vector<std::string> node;                       // by Node::id
  std::vector<std::string> first;                      // by Node::id: the name before a variable renamed it, else empty
  std::vector<std::string> target;                     // by Node::id, of placeholders: "L_x_"
  std::unordered_map<uint32_t, std::string> unmerged;  // by Node::id: an input's name before merge_inputs()
  Namespace space;                                     // for names after these

  /// The name by which bodies in the graph know a node: from before merge_inputs() made it again.
  const std::string& outside(const Node& node) const {
    const auto before = unmerged.find(node.id);
    return before == unmerged.end() ? this->node[node.id] : before->second;
  }
};

/// For a body, `around` has the names of the graph around it.
Names assign_names(const Graph& graph, const Names* around = nullptr);
/// The names in an unfinished graph or body.
Names names_so_far(const Graph& graph);
/// Names of the graph directly around the body; `names` are those of `graph`, which is that graph or one around it.
Names names_around(const Graph& body, const Graph& graph, const Names& names);

}  // namespace gramme::graph
