// Which inputs, kept tensors and saved values of a forward are still needed, as the engine visits or abandons its
// pieces.
#include "training/forward_call.h"

#include <torch/csrc/autograd/engine.h>

#include <algorithm>

namespace gramme::native {

at::Tensor without_history(const at::Tensor& tensor) {
  c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  return at::Tensor(impl->shallow_copy_and_detach(impl->version_counter(), true));
}

void ForwardCall::note(const std::vector<at::Tensor>& given, const std::vector<at::Tensor>& outputs,
                       std::span<const size_t> arguments) {
  auto note_version = [this](const at::Tensor& tensor) {
    counters.push_back(tensor.unsafeGetTensorImpl()->version_counter());
    versions.push_back(counters.back().current_version());
  };
  counters.reserve(given.size() + outputs.size());
  versions.reserve(given.size() + outputs.size());
  for (const at::Tensor& input : given) note_version(input);
  for (const at::Tensor& output : outputs) note_version(output);
  for (const at::Tensor& output : outputs) shown.emplace_back(output.getIntrusivePtr());
  released.resize(training->savers().size());
  finished_.resize(training->layout().pieces.size());
  inputs.resize(given.size());
  stripped_.resize(given.size());
  for (size_t i = 0; i < given.size(); ++i) {
    inputs[i] = given[i];
    if (is_cast(i)) {
      casts_.push_back(given[i].requires_grad() ? torch::autograd::impl::gradient_edge(given[i])
                                                : torch::autograd::Edge());
      strip(i, true);
    }
    if (!training->recomputes() && training->input_savers(i).empty())
      strip(i, training->data_savers(i).empty() && training->needs_no_data());
  }
  for (size_t i : arguments) checked_.emplace_back(given[i], false);
}

void ForwardCall::strip(size_t input, bool wholly) {
  if (stripped_[input]) return;
  at::Tensor& tensor = inputs[input];
  if (wholly)
    tensor.reset();
  else if (!tensor.requires_grad() || !tensor.is_leaf())  // a leaf is kept alive by its AccumulateGrad
    tensor = without_history(tensor);
  stripped_[input] = wholly || training->data_savers(input).empty() || !training->needs_no_data();
}

namespace {

/// By use of the saver's piece: true if the engine comes to the saver for the wanted ones.
bool leads_to_wanted(const Saver& saver, const std::vector<bool>& wanted) {
  for (size_t use = 0; use < wanted.size(); ++use)
    if (wanted[use] && saver.leads[use]) return true;
  return std::ranges::find(wanted, false) == wanted.end();
}

}  // namespace

bool ForwardCall::is_changed(const Saver& saver) const {
  return !training->recomputes() && std::ranges::any_of(saver.saved, [this](Register r) { return is_written(r); });
}

bool ForwardCall::is_untouched() const {
  if (std::ranges::find(released, true) != released.end()) return false;
  for (size_t i = 0; i < counters.size(); ++i)
    if (counters[i].current_version() != versions[i]) return false;
  return true;
}

bool ForwardCall::would_raise(size_t piece, const std::vector<bool>& wanted) const {
  const std::vector<Saver>& savers = training->savers();
  for (size_t i = 0; i < savers.size(); ++i)
    if (savers[i].piece == piece && (released[i] || is_changed(savers[i])) && leads_to_wanted(savers[i], wanted))
      return true;
  return false;
}

void ForwardCall::come(size_t piece, const std::vector<bool>& wanted, bool keep_graph) {
  const std::vector<Saver>& savers = training->savers();
  for (size_t i = 0; i < savers.size(); ++i) {
    if (savers[i].piece != piece || !leads_to_wanted(savers[i], wanted)) continue;
    TORCH_CHECK(!released[i], torch::autograd::ERR_BACKWARD_TWICE);
    if (is_changed(savers[i])) raise_as_eager(savers[i]);
    if (!keep_graph) released[i] = true;
  }
}

std::unique_ptr<EagerGraph> ForwardCall::take_last() {
  if (!graph || released.empty() || std::ranges::find(released, false) != released.end()) return nullptr;
  graph->forget_outputs();
  return std::move(graph);
}

void ForwardCall::leave(size_t piece) {
  for (size_t i = 0; i < released.size(); ++i)
    if (training->savers()[i].piece == piece) released[i] = true;
  release(piece);
}

void ForwardCall::release(size_t piece) {
  finished_[piece] = true;
  drop();
}

void ForwardCall::drop() {
  for (size_t i = 0; i < kept.size(); ++i)
    if (kept[i].defined() && is_done(i)) kept[i].reset();
  for (size_t i = 0; i < inputs.size() && !training->recomputes(); ++i)
    if (!stripped_[i] && are_released(training->data_savers(i))) strip(i, training->needs_no_data());
  if (std::ranges::find(released, false) != released.end()) return;
  graph.reset();
  if (training->needs_no_data()) before.clear();
  if (!training->recomputes() || std::ranges::find(finished_, false) != finished_.end()) return;
  // Nothing is recomputed any more: where formulas saved nothing, and another pass may follow, inputs' forms suffice.
  checked_.clear();
  for (at::Tensor& input : inputs) input.reset();
}

bool ForwardCall::are_released(const std::vector<size_t>& savers) const {
  return !savers.empty() && std::ranges::all_of(savers, [this](size_t saver) { return released[saver]; });
}

bool ForwardCall::is_done(size_t kept) const { return are_released(plan->readers[kept]); }

bool ForwardCall::is_written(Register r) const {
  const int32_t owner = training->owner(r);
  return owner >= 0 && counters[static_cast<size_t>(owner)].current_version() != versions[static_cast<size_t>(owner)];
}

bool ForwardCall::may_run(const BackwardTape& tape) const {
  return std::ranges::all_of(tape.sources(), [this](const BackwardSource& source) {
    if (source.kind == BackwardSource::Slot) return true;
    if (!plan || graph) return false;
    const auto index = static_cast<size_t>(source.index);
    if (is_input(source.index)) return inputs[index].defined() || (waits() && is_cast(index));
    return plan->index[index] >= 0;
  });
}

}  // namespace gramme::native
