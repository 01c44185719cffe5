// Runs a pipeline stage twice: first without an autograd graph, then again in backward, before the gradients of its
// results are needed.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "pipeline/dependency.h"

namespace gramme::pipeline {

/// In which of a checkpoint's two runs this thread is.
struct Runs {
  bool checkpointing = false, recomputing = false;
};
Runs& runs();

/// The stage's function from tensors to tensors. It may throw and may run Python.
using Body = std::function<variable_list(const variable_list&)>;

/// State shared by a checkpoint's two nodes.
struct Checkpoint;

struct Checkpointed {
  std::shared_ptr<Checkpoint> checkpoint;  // null if grad mode is off
  variable_list outputs;                   // those of differentiable dtype require a gradient
};
/// Runs the body without a graph.
Checkpointed checkpoint(Body body, const variable_list& inputs);
/// In backward, runs the body again after everything that depends on the returned phony.
at::Tensor recompute(const std::shared_ptr<Checkpoint>& checkpoint, const at::Tensor& phony);

class CheckpointBackward final : public torch::autograd::Node {
 public:
  explicit CheckpointBackward(std::shared_ptr<Checkpoint> checkpoint) : checkpoint_(std::move(checkpoint)) {}
  std::string name() const override { return "CheckpointBackward"; }
  variable_list apply(variable_list&& gradients) override;
  void release_variables() override;

 private:
  std::shared_ptr<Checkpoint> checkpoint_;
};

class RecomputeBackward final : public torch::autograd::Node {
 public:
  explicit RecomputeBackward(std::shared_ptr<Checkpoint> checkpoint) : checkpoint_(std::move(checkpoint)) {}
  std::string name() const override { return "RecomputeBackward"; }
  variable_list apply(variable_list&& gradients) override;

 private:
  std::shared_ptr<Checkpoint> checkpoint_;
};

}  // namespace gramme::pipeline
