// Tensors in a graph that share memory with a wrapper, other than its inner tensors.
#pragma once
#include <unordered_set>

namespace gramme::graph {
struct Node;
}

namespace gramme::trace {

/// Kept with the scope. AOTAutograd makes views of inputs anew by operators of its own, which a class may not have.
struct WrapperViews {
  std::unordered_set<const graph::Node*> nodes;
};

}  // namespace gramme::trace
