#include "native/forward_call.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/SavedTensorHooks.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <sstream>
#include <unordered_set>

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
  released.resize(training->savers().size());
}

void ForwardCall::come(size_t piece, const std::vector<bool>& wanted, bool keep_graph) {
  const std::vector<Saver>& savers = training->savers();
  const bool all = std::ranges::find(wanted, false) == wanted.end();
  auto comes_to = [&](const Saver& saver) {
    if (saver.piece != piece || all) return saver.piece == piece;
    for (size_t use = 0; use < wanted.size(); ++use)
      if (wanted[use] && saver.leads[use]) return true;
    return false;
  };
  for (size_t i = 0; i < savers.size(); ++i) {
    if (!comes_to(savers[i])) continue;
    TORCH_CHECK(!released[i], torch::autograd::ERR_BACKWARD_TWICE);
    for (Register r : savers[i].saved) check_version(r);
    if (!keep_graph) released[i] = true;
  }
}

void ForwardCall::leave(size_t piece) {
  for (size_t i = 0; i < released.size(); ++i)
    if (training->savers()[i].piece == piece) released[i] = true;
  drop();
}

void ForwardCall::drop() {
  for (size_t i = 0; i < kept.size(); ++i)
    if (kept[i].defined() && is_done(i)) kept[i].reset();
  if (std::ranges::find(released, false) != released.end()) return;
  graph.reset();
  if (!training->needs_no_data()) return;
  inputs.clear();
  before.clear();
}

bool ForwardCall::is_done(size_t kept) const {
  const std::vector<size_t>& readers = plan->readers[kept];
  return !readers.empty() && std::ranges::all_of(readers, [this](size_t reader) { return released[reader]; });
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
  const Seen& seen = training->seen(r);
  std::ostringstream message;
  message << "one of the variables needed for gradient computation has been modified by an inplace operation: ["
          << at::empty({0}, seen.dtype()).toString() << " " << seen.sizes() << "]";
  const auto& origins = training->layout().origins;
  const auto origin = origins.find(r);
  const at::Tensor& given = inputs[input ? static_cast<size_t>(r) : 0];
  if (input && given.grad_fn())
    message << ", which is output " << given.output_nr() << " of " << given.grad_fn()->forward_op_name() << ",";
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

namespace {
/// No two have one gradient, so that it is known to which of them it goes. Graphs of gradients lead on to the tensor.
void tell_apart(std::vector<at::Tensor>& tensors) {
  const at::AutoGradMode with_gradients(true);
  std::unordered_set<torch::autograd::Edge> seen;
  for (at::Tensor& tensor : tensors)
    if (tensor.requires_grad() && !seen.insert(torch::autograd::impl::gradient_edge(tensor)).second)
      tensor = tensor.view_as(tensor);
}
}  // namespace

std::unique_ptr<EagerGraph> ForwardCall::run_again() const {
  std::vector<at::Tensor> given = inputs.empty() ? stand_ins() : inputs;
  for (size_t i = 0, next = 0; i < inputs.size(); ++i)
    if (training->written(i) != Training::Written::No) given[i] = before[next++].clone();
  PlainForward plain;
  FromState state(random);
  tell_apart(given);
  size_t at = 0;
  auto made = std::make_unique<EagerGraph>(training->flat(), given, &at);
  if (!made->fits() || !made->layout().matches(training->layout()))
    GRAMME_BUG("a call of a tape has another graph than the first");
  return made;
}

/// When nothing is needed that anybody saved: of the inputs only their form matters.
std::vector<at::Tensor> ForwardCall::stand_ins() const {
  std::vector<at::Tensor> made;
  for (const Place& place : training->flat().inputs) {
    const Seen& seen = training->seen(place.index);
    made.push_back(at::empty_strided(seen.sizes(), seen.strides(), seen.dtype()).zero_());
  }
  for (const Piece& piece : training->layout().pieces)
    for (const Use& use : piece.uses)
      if (use.input >= 0) made[static_cast<size_t>(use.input)].requires_grad_();
  return made;
}

}  // namespace gramme::native
