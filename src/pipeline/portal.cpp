// The portal's state and its three autograd nodes, which move gradients through the portal instead of along edges.
#include "pipeline/portal.h"

#include <torch/csrc/autograd/functions/utils.h>

#include "pipeline/checkpoint.h"
#include "pipeline/stream.h"

namespace gramme::pipeline {
namespace {

const c10::Device kCpu(c10::kCPU);

int64_t version_of(const at::Tensor& tensor) {
  return !tensor.defined() || tensor.is_inference() ? -1 : int64_t{tensor._version()};
}

/// An alias of `tensor` as a result of the node, whose edges lead to where `from` came from.
at::Tensor result_of(c10::intrusive_ptr<torch::autograd::Node> node, const at::Tensor& from, const at::Tensor& tensor) {
  node->set_next_edges(torch::autograd::collect_next_edges(from));
  at::Tensor result = without_history(tensor);
  torch::autograd::set_history(result, node);
  return result;
}

}  // namespace

void Portal::put_tensor(const at::Tensor& tensor, int64_t life) {
  const bool kept = tensor.defined() && life > 0;
  tensor_ = kept ? tensor : at::Tensor();
  life_ = life;
  version_ = version_of(tensor_);
  may_need_grad_ = kept && is_differentiable(tensor) && (!c10::GradMode::is_enabled() || tensor.requires_grad());
}

void Portal::require_life() const {
  if (life_ <= 0) throw std::runtime_error("tensor in portal has been removed");
}

at::Tensor Portal::use_tensor() {
  require_life();
  return --life_ > 0 ? tensor_ : std::exchange(tensor_, at::Tensor());
}

at::Tensor Portal::use_grad() {
  if (!gradient_.defined()) throw std::runtime_error("grad in portal has been removed or never set");
  return take_grad();
}

void Portal::require_unwritten() const {
  if (version_of(tensor_) == version_ || !(c10::GradMode::is_enabled() || runs().checkpointing)) return;
  throw std::runtime_error(
      "a skip tensor was changed in place after it was stashed, or popped and changed before it was recomputed; its "
      "gradient would be wrong: clone it first");
}

void Portal::move(const c10::Stream& previous, const c10::Stream& next, bool lane_records) {
  at::AutoGradMode history(!lane_records && c10::GradMode::is_enabled());
  const bool moves = tensor_.device() != next.device();
  if (moves) require_unwritten();
  tensor_ = transfer(previous, next, {tensor_})[0];
  if (moves) version_ = version_of(tensor_);
}

at::Tensor blue(const PortalPointer& portal, const at::Tensor& tensor) {
  at::Tensor made = without_history(phony(tensor.device(), false));
  if (!records(tensor)) return made;
  return result_of(c10::make_intrusive<PortalBlueBackward>(portal), tensor, made);
}

at::Tensor blue(const PortalPointer& portal) {
  const at::Tensor tensor = portal->use_tensor();
  return tensor.defined() ? blue(portal, tensor) : phony(kCpu, false);
}

at::Tensor orange(const PortalPointer& portal, const at::Tensor& phony) {
  portal->require_life();
  portal->require_unwritten();
  const at::Tensor tensor = portal->use_tensor();
  if (!tensor.defined()) return tensor;
  if (records(phony) && portal->may_need_grad())
    return result_of(c10::make_intrusive<PortalOrangeBackward>(portal), phony, tensor);
  return records(tensor) ? tensor : without_history(tensor);
}

at::Tensor copy(const PortalPointer& portal, const c10::Stream& previous, const c10::Stream& next,
                const at::Tensor& phony) {
  if (!portal->tensor().defined()) return pipeline::phony(kCpu, false);
  portal->move(previous, next, records(phony));
  at::Tensor made = without_history(pipeline::phony(next.device(), false));
  if (!records(phony)) return made;
  return result_of(c10::make_intrusive<PortalCopyBackward>(portal, previous, next), phony, made);
}

variable_list PortalBlueBackward::apply(variable_list&&) { return {portal_->take_grad()}; }

variable_list PortalOrangeBackward::apply(variable_list&& gradients) {
  portal_->put_grad(gradients[0]);
  return {at::Tensor()};
}

variable_list PortalCopyBackward::apply(variable_list&&) {
  if (portal_->grad().defined()) portal_->put_grad(transfer(next_, previous_, {portal_->grad()})[0]);
  return {at::Tensor()};
}

}  // namespace gramme::pipeline
