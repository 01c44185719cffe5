// The program of a captured graph.
#pragma once
#include "graph/graph.h"
#include "native/program.h"

namespace gramme::native {

/// Owns all it needs: the graph may go. Its output is a tuple.
Program from_graph(const graph::Graph& graph);

}  // namespace gramme::native
