// A node's place in the program, for messages.
#pragma once
#include <string>

#include "graph/graph.h"

namespace gramme::graph {

/// "model.py:88"; empty for null.
std::string place(const Position* position);

}  // namespace gramme::graph
