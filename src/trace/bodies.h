// What operators with bodies require of the rest of a graph if a compiler differentiates it. Each record is part of the
// scope's state.
#pragma once
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "value/value.h"

namespace gramme::trace {

/// Tensors that a body uses while gradients are recorded. AOTAutograd saves them for backward without a copy, so they
/// must not be written later.
struct TakenByBodies {
  struct Taken {
    value::Tensor* tensor;
    const graph::Graph* body;  // null: the operator's own argument
    size_t step;
  };
  std::vector<Taken> tensors;
};

/// Bodies being traced whose operators take no floats as operands.
struct FloatlessBodies {
  int depth = 0;
};

/// What the bodies of hooks take from the graph around them: backward reads it with the content it has then. Memory
/// that the graph makes is identified by its root tensor and the root step of the hook.
struct ReadByHooks {
  std::unordered_map<const value::Tensor*, size_t> made;
  std::vector<const graph::Node*> inputs, outputs;  // watched inputs and outputs of the graph
};

/// Calls of tag_activation_checkpoint that draw random numbers: AOTAutograd refuses those in a graph without a
/// gradient.
struct RandomCheckpoints : std::vector<graph::Node*> {};

}  // namespace gramme::trace
