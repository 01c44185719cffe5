// A backward in two halves: first the gradients that other stages wait for, later those of weights.
#pragma once
#include <string>

#include "pipeline/dependency.h"

namespace gramme::pipeline {

/// The backward of a graph in two halves, each a call of the engine. Nodes from which an input is reached run in the
/// first; where weights hang on such a node it runs again in the second, for these alone, with the gradient that it
/// got. Sums are made in the order of one whole backward, so they have its bits.
class Halves {
 public:
  /// The graph between the roots and the inputs, results of nodes.
  Halves(const variable_list& roots, const variable_list& inputs);

  /// The name of a node that would have to run twice and is not known to allow that; empty if there is none.
  const std::string& refusal() const { return refusal_; }

  /// The first half. What only it needs of the graph is let go.
  void run_inputs(const variable_list& roots, const variable_list& gradients);
  /// The second half; more roots, whose gradients come before those of the graph.
  void run_weights(const variable_list& roots, const variable_list& gradients);

 private:
  /// A node on the way to inputs that weights hang on.
  struct Border {
    c10::intrusive_ptr<torch::autograd::Node> node;
    torch::autograd::edge_list to_inputs, to_weights;  // its edges for each half; none stands for the others
    variable_list gradients;                           // that it got
  };

  std::vector<c10::intrusive_ptr<torch::autograd::Node>> only_inputs_;
  std::vector<Border> borders_;
  std::vector<std::pair<torch::autograd::Node*, uint32_t>> later_;  // roots from which no input is reached
  torch::autograd::edge_list roots_;                                // of the second half
  variable_list gradients_;
  std::string refusal_;
};

}  // namespace gramme::pipeline
