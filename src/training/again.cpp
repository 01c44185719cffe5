// Runs the forward of a call again: under autograd for a backward that has no tape, and for eager's errors; below
// autograd for a checkpoint's backward.
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "base/error.h"
#include "record/saved.h"
#include "training/backward_node.h"
#include "training/forward_call.h"
#include "training/plain_forward.h"
#include "training/random_state.h"

namespace gramme::native {
namespace {

using torch::autograd::Edge;

/// Scope in which version counters have other values.
class AtVersions {
 public:
  AtVersions(const std::vector<c10::VariableVersion>& counters, const std::vector<uint32_t>& versions, size_t count)
      : counters_(counters) {
    for (size_t i = 0; i < count; ++i) {
      now_.push_back(counters[i].current_version());
      if (now_[i] != versions[i]) counters_[i].set_version(versions[i]);
    }
  }
  ~AtVersions() {
    for (size_t i = 0; i < now_.size(); ++i)
      if (counters_[i].current_version() != now_[i]) counters_[i].set_version(now_[i]);
  }
  AtVersions(const AtVersions&) = delete;

 private:
  std::vector<c10::VariableVersion> counters_;  // copies share the counter of their original
  std::vector<uint32_t> now_;
};

/// The inputs of a second forward.
struct Given {
  std::vector<at::Tensor> inputs;
  std::vector<std::pair<at::Tensor, Edge>> told_apart;  // with the edges for their gradients

  /// Replaces inputs that share a gradient, so that it is known which of them a gradient belongs to.
  void tell_apart() {
    std::unordered_set<Edge> seen;
    for (at::Tensor& input : inputs) {
      if (!input.requires_grad()) continue;
      const Edge edge = torch::autograd::impl::gradient_edge(input);
      if (seen.insert(edge).second) continue;
      input = without_history(input);
      torch::autograd::impl::set_gradient_edge(input, Edge(c10::make_intrusive<Exit>(edge), 0));
      told_apart.emplace_back(input, edge);
    }
  }

  /// Gives inputs version counters of their own: writes to them are not noticed.
  void count_apart() {
    for (at::Tensor& input : inputs) {
      const at::Tensor made = input.variable_data();
      if (input.requires_grad())
        torch::autograd::impl::set_gradient_edge(made, torch::autograd::impl::gradient_edge(input));
      input = made;
    }
  }
};

/// Copies bits without raising version counters.
void copy_memory(const at::Tensor& from, const at::Tensor& to) {
  const at::AutoDispatchBelowADInplaceOrView below;
  if (from.storage().nbytes() != to.storage().nbytes()) return void(to.copy_(from));
  std::memcpy(to.storage().mutable_data(), from.storage().data(), from.storage().nbytes());
}

}  // namespace

std::unique_ptr<EagerGraph> ForwardCall::run_again() const {
  Given given;
  PlainForward plain;
  for (size_t i = 0, next = 0; i < inputs.size(); ++i) {
    const bool written = training->written(i) != Training::Written::No;
    given.inputs.push_back(written && !before.empty() ? before[next++].clone() : inputs[i]);
    if (is_cast(i)) given.inputs.back() = cast_again(i);
  }
  add_stand_ins(given.inputs);
  if (training->recomputes()) given.count_apart();
  given.tell_apart();
  FromState state(random);
  const AtVersions then(counters, versions, training->recomputes() ? 0 : inputs.size());
  size_t at = 0;
  auto made = std::make_unique<EagerGraph>(training->flat(), given.inputs, &at);
  if (!made->fits() || !made->layout().matches(training->layout()))
    GRAMME_BUG("a call of a tape has another graph than the first");
  restore_saved(*made);
  for (const auto& [input, edge] : given.told_apart) torch::autograd::impl::set_gradient_edge(input, edge);
  return made;
}

at::Tensor ForwardCall::cast_again(size_t input) const {
  const size_t number = input - training->flat().given();
  const CastInput& cast = training->flat().casts[number];
  at::Tensor made = inputs[cast.input].detach().to(cast.dtype);
  if (casts_[number].is_valid()) torch::autograd::impl::set_gradient_edge(made, casts_[number]);
  return made;
}

void ForwardCall::check_arguments() const {
  if (!waits()) return;
  for (const auto& argument : checked_) argument.unpack();
}

bool ForwardCall::has_written_arguments() const {
  try {
    check_arguments();
  } catch (const c10::Error&) {
    return true;
  }
  return false;
}

void ForwardCall::begin_pass() {
  const int now = torch::autograd::get_current_graph_task_id();
  if (!training->recomputes() || std::exchange(recomputing_pass_, now) == now) return;
  graph.reset();
  kept.clear();
  recomputed_ = false;
}

void ForwardCall::recompute(const BackwardTape& tape) {
  if (!waits()) return;
  bool reads = false;
  for (const BackwardSource& source : tape.sources())
    reads |=
        source.kind == BackwardSource::Kept && (!is_input(source.index) || is_cast(static_cast<size_t>(source.index)));
  if (!reads) return;
  PlainForward plain;
  FromState state(random);
  check_arguments();
  for (size_t i = training->flat().given(); i < inputs.size(); ++i) inputs[i] = cast_again(i);
  kept = training->kept_of(*plan, inputs);
  recomputed_ = true;
}

/// Adds stand-ins for inputs that no formula saved: only their form matters.
void ForwardCall::add_stand_ins(std::vector<at::Tensor>& given) const {
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i].defined()) continue;
    const Seen& seen = training->seen(training->flat().inputs[i].index);
    given[i] = at::empty_strided(seen.sizes(), seen.strides(), seen.dtype()).zero_();
  }
  for (const Piece& piece : training->layout().pieces)
    for (const Use& use : piece.uses)
      if (use.input >= 0 && !given[static_cast<size_t>(use.input)].requires_grad())
        given[static_cast<size_t>(use.input)].requires_grad_();
}

/// Restores what formulas saved, since uncounted writes may have changed the inputs after the forward.
void ForwardCall::restore_saved(const EagerGraph& made) const {
  if (!plan || kept.empty()) return;
  made.each_saved([this](const at::Tensor& tensor, Register r) {
    const int32_t index = plan->index[static_cast<size_t>(r)], owner = training->owner(r);
    if (index < 0 || !kept[static_cast<size_t>(index)].defined()) return;
    if (owner < 0 || static_cast<size_t>(owner) >= inputs.size()) copy_memory(kept[static_cast<size_t>(index)], tensor);
  });
}

void ForwardCall::raise_as_eager(const Saver& saver) const {
  const std::unique_ptr<EagerGraph> again = graph ? nullptr : run_again();
  EagerGraph& made = graph ? *graph : *again;
  for (size_t i = 0; i < shown.size(); ++i) {
    at::Tensor& output = made.output(training->shown()[i]);
    const size_t counter = inputs.size() + i;
    const c10::VariableVersion its = output.unsafeGetTensorImpl()->version_counter();
    const uint32_t now = counters[counter].current_version();
    if (its.current_version() != now)  // otherwise the program wrote it
      c10::VariableVersion(its).set_version(its.current_version() + now - versions[counter]);
    const auto alive = shown[i].lock();
    if (!alive) continue;
    const at::Tensor given(alive);
    // A write that autograd recorded has given it another node.
    if (given.grad_fn() && !is_of_forward(*given.grad_fn()))
      torch::autograd::impl::set_gradient_edge(output, torch::autograd::impl::gradient_edge(given));
  }
  saved_by(made.nodes()[saver.node]);
  TORCH_CHECK(false, "one of the variables needed for gradient computation has been modified by an inplace operation");
}

}  // namespace gramme::native
