// The nodes of autograd that stand for the pieces of a graph.
#pragma once
#include <c10/core/TensorImpl.h>

#include <memory>
#include <mutex>
#include <vector>

#include "native/training.h"

namespace gramme::native {

/// One forward, for its nodes.
struct ForwardCall {
  std::shared_ptr<Training> training;
  std::shared_ptr<const ForwardPlan> plan;  // null: it was made under autograd
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> kept;                // by ForwardPlan::kept
  std::vector<at::Tensor> before;              // what inputs that the forward wrote to held before it
  at::Tensor random;                           // the state before it; undefined: it draws nothing
  std::unique_ptr<EagerGraph> graph;           // made by the forward, or to make up for it
  std::vector<c10::VariableVersion> counters;  // of inputs, then of what is shown
  std::vector<uint32_t> versions;              // what they were after the forward
  std::vector<bool> released;                  // by piece
  std::recursive_mutex mutex;

  // Of the engine's passes over the nodes.

  /// An edge that was taken from a node for the rest of a pass.
  struct TakenEdge {
    c10::weak_intrusive_ptr<torch::autograd::Node> node;
    size_t index;
    torch::autograd::Edge edge;
  };
  int pass = -1;                // the engine's number of the one under way; -1: none
  bool passes_overlap = false;  // or have, once
  std::vector<TakenEdge> taken;
  std::optional<std::vector<const torch::autograd::Node*>> reached;  // leaves that others in it have edges to

  void end_pass(int ended);
  void note_versions(const std::vector<at::Tensor>& outputs);
};

/// Makes the first outputs (in the order of Layout::outputs) results of nodes whose edges to the inputs are given.
void hang(const std::shared_ptr<ForwardCall>& call, const std::vector<torch::autograd::Edge>& edges,
          const std::vector<at::Tensor>& outputs);

}  // namespace gramme::native
