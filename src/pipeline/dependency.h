// The order of backward between tensors that do not depend on each other: `fork` takes an empty tensor, a phony, off
// one lane, and `join` ties it to another. Backward reaches the lane of the join first.
#pragma once
#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>

#include <utility>

namespace gramme::pipeline {

using torch::autograd::variable_list;

/// The empty tensor of a device that stands for nothing but an edge: one for each device and flag, for all threads.
/// A function that returns it returns an alias.
at::Tensor phony(c10::Device device, bool requires_grad);

/// The same memory and version, without history.
at::Tensor without_history(const at::Tensor& tensor);
/// True if autograd could give it a gradient.
bool is_differentiable(const at::Tensor& tensor);
/// True if a node is made for it now.
bool records(const at::Tensor& tensor);
bool records(const variable_list& tensors);
/// Aliases of the tensors; those whose input needs a gradient are outputs of the node.
variable_list outputs_of(const c10::intrusive_ptr<torch::autograd::Node>& node, const variable_list& inputs,
                         variable_list results);

/// The lane, and a phony that depends on it. Without a gradient the lane itself, and a phony that needs none.
std::pair<at::Tensor, at::Tensor> fork(const at::Tensor& lane);
/// The lane, dependent on the phony: backward runs what the phony came from after what the lane goes to. The lane
/// itself where neither needs a gradient, or the lane cannot have one.
at::Tensor join(const at::Tensor& lane, const at::Tensor& phony);

class ForkBackward final : public torch::autograd::Node {
 public:
  std::string name() const override { return "ForkBackward"; }
  variable_list apply(variable_list&& gradients) override;
};

class JoinBackward final : public torch::autograd::Node {
 public:
  std::string name() const override { return "JoinBackward"; }
  variable_list apply(variable_list&& gradients) override;
};

}  // namespace gramme::pipeline
