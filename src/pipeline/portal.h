// A tensor handed past intermediate stages, hidden from autograd. Blue stands where it goes in, orange where it comes
// out, copy where it crosses devices; gradients go back through the portal in the order orange, copy, blue, which fork
// and join of their phonies give.
#pragma once
#include <c10/core/Stream.h>

#include <memory>

#include "pipeline/dependency.h"

namespace gramme::pipeline {

/// One micro-batch's tensor on its way. It is given out as often as its life says, then dropped.
class Portal {
 public:
  Portal(const at::Tensor& tensor, int64_t life) { put_tensor(tensor, life); }

  /// An undefined tensor stands for None.
  void put_tensor(const at::Tensor& tensor, int64_t life);
  /// One life less; throws where none is left.
  at::Tensor use_tensor();
  const at::Tensor& tensor() const { return tensor_; }
  int64_t life() const { return life_; }
  void require_life() const;

  void put_grad(const at::Tensor& gradient) { gradient_ = gradient; }
  /// Given once; throws where there is none.
  at::Tensor use_grad();
  const at::Tensor& grad() const { return gradient_; }
  /// Undefined where there is none.
  at::Tensor take_grad() { return std::exchange(gradient_, at::Tensor()); }

  /// The tensor as it is on another device.
  void move(const c10::Stream& previous, const c10::Stream& next, bool lane_records);
  /// True if the stashed tensor may need a gradient. Not known before it is recomputed.
  bool may_need_grad() const { return may_need_grad_; }
  /// Throws where it was written since it was put in: its gradient would pass the write by.
  void require_unwritten() const;

 private:
  at::Tensor tensor_, gradient_;
  int64_t life_ = 0;
  int64_t version_ = -1;
  bool may_need_grad_ = false;
};

using PortalPointer = std::shared_ptr<Portal>;

/// The phony of a stash.
at::Tensor blue(const PortalPointer& portal);
at::Tensor blue(const PortalPointer& portal, const at::Tensor& tensor);
/// What a pop gives: the tensor without its history, as a result of the phony. With its history where the phony carries
/// no gradient back, undefined for None.
at::Tensor orange(const PortalPointer& portal, const at::Tensor& phony);
/// Moves the tensor to the device of `next`; gives a phony there.
at::Tensor copy(const PortalPointer& portal, const c10::Stream& previous, const c10::Stream& next,
                const at::Tensor& phony);

/// A node at a portal.
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
