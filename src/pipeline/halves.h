// Splits a backward pass: first the gradients that other stages wait for, later those of weights.
#pragma once
#include <string>

#include "pipeline/dependency.h"

namespace gramme::pipeline {

/// The backward of a graph in two calls of the engine. Nodes from which an input is reached run in the first half. If
/// such a node also has weights, it runs again in the second half, for these only, with the gradient from the first.
/// Sums are made in the order of a whole backward, so they are bitwise equal.
class Halves {
 public:
  /// The graph from the roots to the inputs, which must be results of nodes.
  Halves(const variable_list& roots, const variable_list& inputs);

  /// The name of a node that would run twice but is not known to allow that; empty if there is none.
  const std::string& refusal() const { return refusal_; }

  /// Runs the first half, and frees the parts of the graph that only it needs.
  void run_inputs(const variable_list& roots, const variable_list& gradients);
  /// Runs the second half. `roots` are further roots, which come before the border nodes.
  void run_weights(const variable_list& roots, const variable_list& gradients);

 private:
  /// A node with edges both to inputs and to weights.
  struct Border {
    c10::intrusive_ptr<torch::autograd::Node> node;
    torch::autograd::edge_list to_inputs, to_weights;  // its edges in each half, null for those of the other half
    variable_list gradients;                           // received in the first half
  };

  std::vector<c10::intrusive_ptr<torch::autograd::Node>> only_inputs_;
  std::vector<Border> borders_;
  std::vector<std::pair<torch::autograd::Node*, uint32_t>> later_;  // roots that reach no input
  torch::autograd::edge_list roots_;                                // roots of the second half
  variable_list gradients_;
  std::string refusal_;
};

}  // namespace gramme::pipeline
