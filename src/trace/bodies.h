// What operators with bodies ask of the rest of a graph for a compiler that differentiates it. Kept with the scope.
#pragma once
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "value/value.h"

namespace gramme::trace {

/// Tensors that a body took, where gradients are recorded: AOTAutograd keeps them for backward and does not copy what
/// is written to later.
struct TakenByBodies {
  struct Taken {
    value::Tensor* tensor;
    const graph::Graph* body;  // null: the operator's own argument
    size_t step;
  };
  std::vector<Taken> tensors;
};

/// Bodies under way of operators that take no floats as operands.
struct FloatlessBodies {
  int depth = 0;
};

/// Bodies under way that get gradients: of those only sizes, dtype and device are known, and they run with another grad
/// mode than they are traced with.
struct OfGradients {
  int depth = 0;
};

/// What the bodies of hooks took from the graph around: backward reads it as it is then. Memory that the graph makes is
/// known by its root and the root step of the hook.
struct ReadByHooks {
  std::unordered_map<const value::Tensor*, size_t> made;
  std::vector<const graph::Node*> inputs, outputs;  // that are watched: of the graph
};

/// Calls of tag_activation_checkpoint that draw random numbers: AOTAutograd refuses those in a graph without a
/// gradient.
struct RandomCheckpoints : std::vector<graph::Node*> {};

}  // namespace gramme::trace
