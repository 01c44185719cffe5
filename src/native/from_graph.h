// Converts a captured graph to a program for the native executor.
#pragma once
#include "graph/graph.h"
#include "native/executor.h"

namespace gramme::native {

/// The program owns all it needs, and its output is a tuple. `module` is the graph module, needed to call operators
/// with bodies; null if there is none. `settings`: of the caller, for bodies.
Program from_graph(const graph::Graph& graph, PyObject* module, const Settings& settings);

}  // namespace gramme::native
