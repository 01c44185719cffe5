// Passes a skip tensor past intermediate stages, hidden from autograd. `blue` is where it enters, `orange` where it
// leaves, `copy` where it crosses devices. In backward the gradient passes in the order orange, copy, blue, which fork
// and join of their phonies enforce.
#pragma once
#include <c10/core/Stream.h>

#include <memory>

#include "pipeline/dependency.h"

namespace gramme::pipeline {

/// The skip tensor of one micro-batch. It can be used as often as its `life` says, then it is dropped.
class Portal {
 public:
  Portal(const at::Tensor& tensor, int64_t life) { put_tensor(tensor, life); }

  /// An undefined tensor stands for None.
  void put_tensor(const at::Tensor& tensor, int64_t life);
  /// Returns the tensor and lowers its life by one; throws if none is left.
  at::Tensor use_tensor();
  const at::Tensor& tensor() const { return tensor_; }
  int64_t life() const { return life_; }
  void require_life() const;

  void put_grad(const at::Tensor& gradient) { gradient_ = gradient; }
  /// Returns the gradient once; throws if there is none.
  at::Tensor use_grad();
  const at::Tensor& grad() const { return gradient_; }
  /// The same, but undefined if there is none.
  at::Tensor take_grad() { return std::exchange(gradient_, at::Tensor()); }

  /// Replaces the tensor by a copy on the device of `next`.
  void move(const c10::Stream& previous, const c10::Stream& next, bool lane_records);
  /// True if the stashed tensor may need a gradient; certain only after its stage was recomputed.
  bool may_need_grad() const { return may_need_grad_; }
  /// Throws if the tensor was written since put_tensor(): its gradient would miss the write.
  void require_unwritten() const;

 private:
  at::Tensor tensor_, gradient_;
  int64_t life_ = 0;
  int64_t version_ = -1;
  bool may_need_grad_ = false;
};

using PortalPointer = std::shared_ptr<Portal>;

/// Makes the phony for a stashed tensor.
at::Tensor blue(const PortalPointer& portal);
at::Tensor blue(const PortalPointer& portal, const at::Tensor& tensor);
/// The result of a pop: an alias of the tensor that depends on the phony instead of its own history. If the phony
/// records no gradient, the tensor with its history; undefined for None.
at::Tensor orange(const PortalPointer& portal, const at::Tensor& phony);
/// Moves the tensor to the device of `next`; returns a phony there.
at::Tensor copy(const PortalPointer& portal, const c10::Stream& previous, const c10::Stream& next,
                const at::Tensor& phony);

/// Base of the portal's autograd nodes.
class AtPortal : public torch::autograd::Node {
 public:
  explicit AtPortal(PortalPointer portal) : portal_(std::move(portal)) {}

 protected:
  PortalPointer portal_;
};

class PortalBlueBackward final : public AtPortal {
 public:
  using AtPortal::AtPortal;
  std::string name() const override { return "PortalBlueBackward"; }
  variable_list apply(variable_list&& gradients) override;
};

class PortalOrangeBackward final : public AtPortal {
 public:
  using AtPortal::AtPortal;
  std::string name() const override { return "PortalOrangeBackward"; }
  variable_list apply(variable_list&& gradients) override;
};

class PortalCopyBackward final : public AtPortal {
 public:
  PortalCopyBackward(PortalPointer portal, const c10::Stream& previous, const c10::Stream& next)
      : AtPortal(std::move(portal)), previous_(previous), next_(next) {}
  std::string name() const override { return "PortalCopyBackward"; }
  variable_list apply(variable_list&& gradients) override;

 private:
  c10::Stream previous_, next_;
};

}  // namespace gramme::pipeline
