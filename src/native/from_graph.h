// Makes a native program of a captured graph.
#pragma once
#include "graph/graph.h"
#include "native/program.h"

namespace gramme::native {

/// Owns all it needs: the graph may go. Its output is a tuple. `module`: the graph module of it, which operators with
/// bodies are called with; null if it has none.
Program from_graph(const graph::Graph& graph, PyObject* module);

}  // namespace gramme::native
