// Nodes of gramme's in compiled autograd, which calls such a node in a graph for this node alone.
#pragma once
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <functional>

namespace gramme::native {

/// What a node's compiled_args() collects: something that no other node has.
void collect(torch::dynamo::autograd::CompiledNodeArgs& args);
/// What its apply_with_saved() returns: a call of `apply` in the graph.
torch::autograd::variable_list call_in_graph(
    std::function<torch::autograd::variable_list(torch::autograd::variable_list&&)> apply,
    const torch::autograd::edge_list& next, const torch::autograd::variable_list& gradients,
    torch::dynamo::autograd::SwapSavedVariables& saved);

}  // namespace gramme::native
