// Tensors in a graph that share memory with a wrapper, other than its inner tensors.
#pragma once
#include <unordered_set>

namespace gramme::graph {
struct Node;
}

namespace gramme::trace {

/// Kept with the scope. AOTAutograd rebuilds views of inputs with operators of its own, which a class may not support.
struct WrapperViews {
  std::unordered_set<const graph::Node*> nodes;
};

}  // namespace gramme::trace
