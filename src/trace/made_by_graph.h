// Objects other than tensors and numbers that graph nodes return: replay takes them from the graph's outputs.
#pragma once
#include <unordered_map>

#include "value/value.h"

namespace gramme::trace {

/// State of the scope.
struct MadeByGraph {
  std::unordered_map<const value::Object*, graph::Node*> nodes;
};

}  // namespace gramme::trace
