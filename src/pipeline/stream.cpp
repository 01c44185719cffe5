// Copies and waits between streams of any device type, through c10's virtual guards, and their autograd nodes.
#include "pipeline/stream.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <optional>

namespace gramme::pipeline {
namespace {

bool is_cpu(const c10::Stream& stream) { return stream.device_type() == c10::kCPU; }

/// Makes the stream current in the scope; does nothing for a CPU's.
class Using {
 public:
  explicit Using(const c10::Stream& stream) {
    if (!is_cpu(stream)) guard_.emplace(stream);
  }

 private:
  std::optional<c10::StreamGuard> guard_;
};

}  // namespace

c10::Stream cpu_stream() { return c10::Stream(c10::Stream::DEFAULT, c10::Device(c10::kCPU)); }

void wait(const c10::Stream& waiting, const c10::Stream& other) {
  if (is_cpu(other)) return;
  if (is_cpu(waiting)) return other.synchronize();
  c10::Event event(other.device_type());
  event.record(other);
  event.block(waiting);
}

void record(const at::Tensor& tensor, const c10::Stream& stream) {
  if (is_cpu(stream) || tensor.device().type() != stream.device_type() || !tensor.has_storage()) return;
  const c10::impl::VirtualGuardImpl guard(stream.device_type());
  guard.recordDataPtrOnStream(tensor.storage().data_ptr(), stream);  // the whole storage, also for a view
}

c10::Stream current_stream(c10::Device device) {
  if (device.is_cpu()) return cpu_stream();
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

variable_list transfer(const c10::Stream& previous, const c10::Stream& next, const variable_list& tensors) {
  const c10::Device device = next.device();
  const c10::Stream consumer = current_stream(device);
  const Using from(previous), to(next);
  variable_list moved;
  for (const at::Tensor& tensor : tensors) {
    moved.push_back(tensor.defined() ? tensor.to(device) : tensor);
    if (!tensor.defined()) continue;
    record(tensor, previous);
    record(moved.back(), consumer);
  }
  return moved;
}

variable_list copy(const c10::Stream& previous, const c10::Stream& next, const variable_list& tensors) {
  const bool recorded = records(tensors);
  at::AutoGradMode no_history(false);
  variable_list moved = transfer(previous, next, tensors);
  if (!recorded) return moved;
  auto node = c10::make_intrusive<CopyBackward>(previous, next);
  node->set_next_edges(torch::autograd::collect_next_edges(tensors));
  return outputs_of(node, tensors, std::move(moved));
}

variable_list wait(const c10::Stream& previous, const c10::Stream& next, const variable_list& tensors) {
  wait(next, previous);
  if (!records(tensors)) return tensors;
  auto node = c10::make_intrusive<WaitBackward>(previous, next);
  node->set_next_edges(torch::autograd::collect_next_edges(tensors));
  return outputs_of(node, tensors, tensors);
}

variable_list CopyBackward::apply(variable_list&& gradients) {
  std::reverse(gradients.begin(), gradients.end());  // the last tensor sent forward is needed first
  variable_list moved = transfer(next_, previous_, gradients);
  std::reverse(moved.begin(), moved.end());
  return moved;
}

variable_list WaitBackward::apply(variable_list&& gradients) {
  wait(previous_, next_);
  return std::move(gradients);
}

}  // namespace gramme::pipeline
