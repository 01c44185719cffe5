// Moves a micro-batch's tensors between two devices, each with its own stream. The stream of a CPU is a stand-in: its
// work is done when the call returns.
#pragma once
#include <c10/core/Stream.h>

#include "pipeline/dependency.h"

namespace gramme::pipeline {

c10::Stream cpu_stream();
/// Later work on `waiting` starts after the present work of `other`.
void wait(const c10::Stream& waiting, const c10::Stream& other);
/// The tensor's memory is not reused before the stream's present work is done.
void record(const at::Tensor& tensor, const c10::Stream& stream);
/// The device's current stream.
c10::Stream current_stream(c10::Device device);
/// Copies of the tensors on the device of `next`; the tensors themselves if they are there already.
variable_list transfer(const c10::Stream& previous, const c10::Stream& next, const variable_list& tensors);

/// The same with an autograd node that copies gradients back from `next` to `previous`.
variable_list copy(const c10::Stream& previous, const c10::Stream& next, const variable_list& tensors);
/// `next` waits for `previous`, and in backward `previous` for `next`: one node for all tensors.
variable_list wait(const c10::Stream& previous, const c10::Stream& next, const variable_list& tensors);

/// Base of the autograd nodes between two streams.
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
