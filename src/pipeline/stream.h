// Tensors of a micro-batch on their way between two devices, each on its own stream. A CPU has none: its stream stands
// for work that is done once the call returns.
#pragma once
#include <c10/core/Stream.h>

#include "pipeline/dependency.h"

namespace gramme::pipeline {

c10::Stream cpu_stream();
/// What `waiting` is asked to do from now on comes after what `other` was asked so far.
void wait(const c10::Stream& waiting, const c10::Stream& other);
/// The memory of the tensor is not given to others before the stream is done with what it was asked so far.
void record(const at::Tensor& tensor, const c10::Stream& stream);
/// The stream that calls for the device use now.
c10::Stream current_stream(c10::Device device);
/// Copies on the device of `next`, by way of `previous`; on one device the tensors themselves.
variable_list transfer(const c10::Stream& previous, const c10::Stream& next, const variable_list& tensors);

/// Aliases or copies of the tensors for `next`; gradients go the other way.
variable_list copy(const c10::Stream& previous, const c10::Stream& next, const variable_list& tensors);
/// `next` waits for `previous`, and in backward the other way round: one node for all tensors.
variable_list wait(const c10::Stream& previous, const c10::Stream& next, const variable_list& tensors);

/// A node between two streams.
class BetweenStreams : public torch::autograd::Node {
 public:
  BetweenStreams(const c10::Stream& previous, const c10::Stream& next) : previous_(previous), next_(next) {}

 protected:
  c10::Stream previous_, next_;
};

class CopyBackward final : public BetweenStreams {
 public:
  using BetweenStreams::BetweenStreams;
  std::string name() const override { return "CopyBackward"; }
  variable_list apply(variable_list&& gradients) override;
};

class WaitBackward final : public BetweenStreams {
 public:
  using BetweenStreams::BetweenStreams;
  std::string name() const override { return "WaitBackward"; }
  variable_list apply(variable_list&& gradients) override;
};

}  // namespace gramme::pipeline
