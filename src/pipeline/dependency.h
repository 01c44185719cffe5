// Orders the backward of tensors that do not depend on each other. `fork` derives an empty tensor, a phony, from one
// lane, and `join` makes another lane depend on it. Backward then reaches the joined lane first.
#pragma once
#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>

#include <utility>

namespace gramme::pipeline {

using torch::autograd::variable_list;

/// An empty tensor that only serves as an edge: one for each device and flag, shared by all threads. Functions of this
/// room return aliases of it.
at::Tensor phony(c10::Device device, bool requires_grad);

/// A detached alias: the same memory and version counter.
at::Tensor without_history(const at::Tensor& tensor);
/// True if the tensor's dtype can have gradients.
bool is_differentiable(const at::Tensor& tensor);
/// True if an operation on the tensor would record an autograd node now.
bool records(const at::Tensor& tensor);
bool records(const variable_list& tensors);
/// Aliases of `results`; those whose input requires a gradient become outputs of the node.
variable_list outputs_of(const c10::intrusive_ptr<torch::autograd::Node>& node, const variable_list& inputs,
                         variable_list results);

/// An alias of the lane, and a phony that depends on the lane. If no gradient is recorded, the lane itself and a phony
/// without history.
std::pair<at::Tensor, at::Tensor> fork(const at::Tensor& lane);
/// An alias of the lane that also depends on the phony, so that backward runs the phony's origin after the lane's later
/// operations. The lane itself if neither requires a gradient or the lane cannot have one.
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
