// Converts a captured graph to a torch.fx.GraphModule.
#pragma once
#include <vector>

#include "base/ref.h"
#include "graph/graph.h"

namespace gramme::backend {

/// A torch.fx.GraphModule (lazily compiled) with PyTorch Dynamo's placeholder targets, node names and output form (a
/// tuple). `inputs` are the real objects of the placeholders, for placeholder metadata; ints of those that vary.
/// Without them placeholders have no types.
Owned<> to_fx(const graph::Graph& graph, const std::vector<Owned<>>& inputs);

}  // namespace gramme::backend
