// The captured graph as torch.fx, and the call of a torch.compile backend.
#pragma once
#include <vector>

#include "base/ref.h"
#include "graph/graph.h"

namespace gramme::backend {

/// A torch.fx.GraphModule (lazily compiled) with PyTorch Dynamo's placeholder targets, node names and output form (a
/// tuple). `inputs` are the real objects of the placeholders, for placeholder metadata.
Owned<> to_fx(const graph::Graph& graph, const std::vector<Owned<>>& inputs);

/// Calls backend(graph_module, example_inputs), and checks that the result is callable.
/// Throws PythonError: torch._dynamo's BackendCompilerFailed naming the backend if it raised.
Owned<> compile(PyObject* backend, const Owned<>& graph_module, const std::vector<Owned<>>& inputs);

}  // namespace gramme::backend
