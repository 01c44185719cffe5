// Tensors in a graph that share memory with a wrapper, other than its inner tensors.
#pragma once
#include <unordered_set>

namespace gramme::graph {
struct Node;
}

namespace gramme::trace {

/// State of the scope. AOTAutograd recreates views of inputs by operators that the wrapper's class may not support.
struct WrapperViews {
  std::unordered_set<const graph::Node*> nodes;
};

}  // namespace gramme::trace
