#include "native/forward_call.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/SavedTensorHooks.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include <algorithm>
#include <sstream>

#include "base/error.h"

namespace gramme::native {
namespace {

/// The thread's modes are those of a plain forward while it lives.
class PlainForward {
 public:
  PlainForward()
      : keys_(c10::default_included_set, c10::default_excluded_set),
        modes_(c10::impl::TorchDispatchModeTLS::get_state()),
        hooks_(at::SavedTensorDefaultHooks::get_tls_state()),
        anomaly_(torch::autograd::AnomalyMode::is_enabled()),
        checks_nan_(torch::autograd::AnomalyMode::should_check_nan()) {
    c10::impl::TorchDispatchModeTLS::set_state({});
    at::SavedTensorDefaultHooks::set_tls_state({});
    torch::autograd::AnomalyMode::set_enabled(false, checks_nan_);
  }
  ~PlainForward() {
    torch::autograd::AnomalyMode::set_enabled(anomaly_, checks_nan_);
    at::SavedTensorDefaultHooks::set_tls_state(hooks_);
    c10::impl::TorchDispatchModeTLS::set_state(modes_);
  }
  PlainForward(const PlainForward&) = delete;

 private:
  c10::impl::ForceDispatchKeyGuard keys_;
  c10::AutoGradMode on_{true};
  const c10::impl::TorchDispatchModeTLS modes_;
  const at::impl::SavedTensorDefaultHooksTLS hooks_;
  const bool anomaly_, checks_nan_;
};

/// The default generator is in the state while it lives.
class FromState {
 public:
  explicit FromState(const at::Tensor& state) {
    if (!state.defined()) return;
    std::lock_guard<std::mutex> lock(generator_.mutex());
    before_ = generator_.get_state();
    generator_.set_state(state);
  }
  ~FromState() {
    if (!before_.defined()) return;
    std::lock_guard<std::mutex> lock(generator_.mutex());
    generator_.set_state(before_);
  }
  FromState(const FromState&) = delete;

 private:
  at::Generator generator_ = at::detail::getDefaultCPUGenerator();
  at::Tensor before_;
};

}  // namespace

void ForwardCall::note_versions(const std::vector<at::Tensor>& outputs) {
  auto note = [this](const at::Tensor& tensor) {
    counters.push_back(tensor.unsafeGetTensorImpl()->version_counter());
    versions.push_back(counters.back().current_version());
  };
  counters.reserve(inputs.size() + outputs.size());
  versions.reserve(inputs.size() + outputs.size());
  for (const at::Tensor& input : inputs) note(input);
  for (const at::Tensor& output : outputs) note(output);
  released.resize(training->layout().pieces.size());
}

void ForwardCall::release(size_t piece) {
  released[piece] = true;
  if (plan)
    for (size_t i = 0; i < kept.size(); ++i)
      if (kept[i].defined() && is_last_reader(piece, i)) kept[i].reset();
  if (std::ranges::find(released, false) != released.end()) return;
  inputs.clear();
  before.clear();
  graph.reset();
}

bool ForwardCall::is_last_reader(size_t piece, size_t kept) const {
  return std::ranges::all_of(plan->readers[kept], [&](size_t reader) { return reader == piece || released[reader]; });
}

bool ForwardCall::may_run(const BackwardTape& tape) const {
  return std::ranges::all_of(tape.sources(), [this](const BackwardSource& source) {
    if (source.kind == BackwardSource::Slot) return true;
    if (!plan || graph) return false;
    return is_input(source.index) || plan->index[static_cast<size_t>(source.index)] >= 0;
  });
}

void ForwardCall::check_version(Register r) const {
  const int32_t owner = training->owner(r);
  if (owner < 0 || !is_changed(static_cast<size_t>(owner))) return;
  const bool input = is_input(r);
  const at::Tensor& tensor =
      input ? inputs[static_cast<size_t>(r)] : kept[static_cast<size_t>(plan->index[static_cast<size_t>(r)])];
  std::ostringstream message;
  message << "one of the variables needed for gradient computation has been modified by an inplace operation: ["
          << tensor.toString() << " " << tensor.sizes() << "]";
  const auto& origins = training->layout().origins;
  const auto origin = origins.find(r);
  if (input && tensor.grad_fn())
    message << ", which is output " << tensor.output_nr() << " of " << tensor.grad_fn()->forward_op_name() << ",";
  else if (!input && origin != origins.end())
    message << ", which is output " << origin->second.output << " of " << origin->second.operation << ",";
  message << " is at version " << counters[static_cast<size_t>(owner)].current_version() << "; expected version "
          << versions[static_cast<size_t>(owner)] << " instead."
          << " Hint: enable anomaly detection to find the operation that failed to compute its gradient, with "
             "torch.autograd.set_detect_anomaly(True, check_nan=False).";
  TORCH_CHECK(false, message.str());
}

std::optional<size_t> ForwardCall::changed_input() const {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (is_changed(i) && training->written(i) != Training::Written::Counted) return i;
  return std::nullopt;
}

std::unique_ptr<EagerGraph> ForwardCall::run_again() const {
  std::vector<at::Tensor> given = inputs;
  for (size_t i = 0, next = 0; i < inputs.size(); ++i)
    if (training->written(i) != Training::Written::No) given[i] = before[next++].clone();
  PlainForward plain;
  FromState state(random);
  size_t at = 0;
  auto made = std::make_unique<EagerGraph>(training->flat(), given, &at);
  if (!made->fits() || !made->layout().matches(training->layout()))
    GRAMME_BUG("a call of a tape has another graph than the first");
  const std::vector<Register>& shown = training->shown();
  for (size_t i = 0; i < shown.size(); ++i)
    for (uint32_t v = versions[inputs.size() + i]; v < counters[inputs.size() + i].current_version(); ++v)
      made->output(shown[i]).unsafeGetTensorImpl()->bump_version();
  return made;
}

}  // namespace gramme::native
