// Objects that the graph's nodes give and that are no tensors and no numbers: replay takes them from its outputs.
#pragma once
#include <unordered_map>

#include "value/value.h"

namespace gramme::trace {

/// Kept with the scope.
struct MadeByGraph {
  std::unordered_map<const value::Object*, graph::Node*> nodes;
};

}  // namespace gramme::trace
