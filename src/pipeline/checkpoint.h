// A stage run twice: first without a graph, then again in backward, before the gradient of its results is needed.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "pipeline/dependency.h"

namespace gramme::pipeline {

/// Which of the two runs of a checkpoint this thread is in.
struct Runs {
  bool checkpointing = false, recomputing = false;
};
Runs& runs();

/// What is run: tensors to tensors. May throw, and may run Python.
using Body = std::function<variable_list(const variable_list&)>;

/// What the two nodes of a checkpoint share.
struct Checkpoint;

struct Checkpointed {
  std::shared_ptr<Checkpoint> checkpoint;  // null where no gradient is recorded
  variable_list outputs;                   // those that may have a gradient need one
};
/// Runs the body without a graph.
Checkpointed checkpoint(Body body, const variable_list& inputs);
/// Runs it again in backward once all that hangs on the phony that comes back was run.
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
