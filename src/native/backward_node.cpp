#include "native/backward_node.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/SavedTensorHooks.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <sstream>

#include "base/error.h"

namespace gramme::native {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::variable_list;

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

class RecordedBackward final : public torch::autograd::Node {
 public:
  RecordedBackward(std::shared_ptr<ForwardCall> call, size_t piece) : call_(std::move(call)), piece_(piece) {
    for (const Slot& slot : this->piece().slots)
      add_input_metadata(slot.metadata.options(), slot.metadata.shape_as_dim_vector(),
                         slot.metadata.is_tensor_subclass(), slot.metadata.is_nested_tensor(),
                         slot.metadata.grad_dtype());
  }

  std::string name() const override { return "RecordedBackward"; }

  void release_variables() override {
    std::lock_guard<std::recursive_mutex> lock(call_->mutex);
    call_->released[piece_] = true;
    if (call_->plan)
      for (size_t i = 0; i < call_->kept.size(); ++i)
        if (call_->plan->last_read[i] == piece_) call_->kept[i].reset();
    if (piece_ + 1 < call_->released.size()) return;
    call_->inputs.clear();
    call_->graph.reset();
  }

 private:
  const Piece& piece() const { return call_->training->layout().pieces[piece_]; }

  variable_list apply(variable_list&& gradients) override {
    std::vector<bool> wanted(num_outputs());
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = task_should_compute_output(i);
    const bool create_graph = c10::GradMode::is_enabled();
    if (create_graph) call_->training->stop("a graph of the backward was wanted");
    if (std::ranges::none_of(gradients, [](const at::Tensor& gradient) { return gradient.defined(); }))
      return variable_list(num_outputs());
    std::unique_lock<std::recursive_mutex> lock(call_->mutex);
    std::optional<BackwardKey> key = create_graph ? std::nullopt : BackwardKey::read(gradients, wanted);
    const std::shared_ptr<const BackwardTape> tape = key ? call_->training->find(piece_, *key) : nullptr;
    if (tape && may_run(*tape)) {
      variable_list given = take(*tape, gradients);
      lock.unlock();
      return tape->run(std::move(given));
    }
    if (tape) key.reset();  // there is nothing new to write down
    return run_eagerly(std::move(key), gradients, wanted, create_graph);
  }

  /// Is all there that it reads?
  bool may_run(const BackwardTape& tape) const {
    return std::ranges::all_of(tape.sources(), [this](const BackwardSource& source) {
      if (source.kind == BackwardSource::Slot) return true;
      if (!call_->plan || call_->graph) return false;
      return is_input(source.index) || call_->plan->index[static_cast<size_t>(source.index)] >= 0;
    });
  }

  bool is_input(Register r) const { return r < static_cast<Register>(call_->training->flat().inputs.size()); }

  /// What the tape reads. If the graph is not kept nobody else needs the gradients, nor what no later piece reads.
  variable_list take(const BackwardTape& tape, variable_list& gradients) {
    const bool keep = torch::autograd::get_current_graph_task_keep_graph();
    variable_list given;
    given.reserve(tape.sources().size());
    for (const BackwardSource& source : tape.sources()) {
      if (source.kind == BackwardSource::Slot) {
        given.push_back(std::move(gradients[static_cast<size_t>(source.index)]));
        continue;
      }
      TORCH_CHECK(!call_->released[piece_], torch::autograd::ERR_BACKWARD_TWICE);
      check_version(source.index);
      if (is_input(source.index)) {
        given.push_back(call_->inputs[static_cast<size_t>(source.index)]);
        continue;
      }
      const auto index = static_cast<size_t>(call_->plan->index[static_cast<size_t>(source.index)]);
      at::Tensor& kept = call_->kept[index];
      given.push_back(keep || call_->plan->last_read[index] != piece_ ? kept : std::move(kept));
    }
    return given;
  }

  bool is_changed(size_t owner) const { return call_->counters[owner].current_version() != call_->versions[owner]; }

  /// As SavedVariable::unpack does.
  void check_version(Register r) const {
    const int32_t owner = call_->training->owner(r);
    if (owner < 0 || !is_changed(static_cast<size_t>(owner))) return;
    const bool input = is_input(r);
    const at::Tensor& tensor = input ? call_->inputs[static_cast<size_t>(r)]
                                     : call_->kept[static_cast<size_t>(call_->plan->index[static_cast<size_t>(r)])];
    std::ostringstream message;
    message << "one of the variables needed for gradient computation has been modified by an inplace operation: ["
            << tensor.toString() << " " << tensor.sizes() << "]";
    const auto& origins = call_->training->layout().origins;
    const auto origin = origins.find(r);
    if (input && tensor.grad_fn())
      message << ", which is output " << tensor.output_nr() << " of " << tensor.grad_fn()->forward_op_name() << ",";
    else if (!input && origin != origins.end())
      message << ", which is output " << origin->second.output << " of " << origin->second.operation << ",";
    message << " is at version " << call_->counters[static_cast<size_t>(owner)].current_version()
            << "; expected version " << call_->versions[static_cast<size_t>(owner)] << " instead."
            << " Hint: enable anomaly detection to find the operation that failed to compute its gradient, with "
               "torch.autograd.set_detect_anomaly(True, check_nan=False).";
    TORCH_CHECK(false, message.str());
  }

  variable_list run_eagerly(std::optional<BackwardKey> key, variable_list& gradients, const std::vector<bool>& wanted,
                            bool create_graph) {
    TORCH_CHECK(!call_->released[piece_], torch::autograd::ERR_BACKWARD_TWICE);
    if (!call_->graph) make_up();
    if (!key) return call_->graph->run(piece_, gradients, wanted, create_graph);
    Training& training = *call_->training;
    BackwardTape::Record record(*call_->graph, training.flat(), piece_, std::move(*key), gradients);
    if (record.tape)
      training.add(piece_, std::move(record.tape));
    else
      training.stop(std::move(record.why));
    return std::move(record.found);
  }

  /// Runs the forward again, under autograd.
  void make_up() {
    const size_t inputs = call_->inputs.size();
    for (size_t i = 0; i < inputs; ++i) {
      if (!is_changed(i)) continue;
      for (size_t k = 0; k < call_->plan->kept.size(); ++k)
        if (call_->training->owner(call_->plan->kept[k]) == static_cast<int32_t>(i))
          check_version(call_->plan->kept[k]);
      TORCH_CHECK(false,
                  "gramme: this backward is not like those before it, so that the forward has to run again, but ",
                  "a tensor that the forward was given (", call_->inputs[i].toString(), " ", call_->inputs[i].sizes(),
                  ") has been modified by an inplace operation since");
    }
    PlainForward plain;
    FromState random(call_->random);
    size_t at = 0;
    auto graph = std::make_unique<EagerGraph>(call_->training->flat(), call_->inputs, &at);
    const Layout& layout = call_->training->layout();
    if (!graph->fits() || !graph->layout().matches(layout))
      GRAMME_BUG("a call of a tape has another graph than the first");
    for (size_t i = 0; i < layout.outputs.size(); ++i)
      for (uint32_t v = call_->versions[inputs + i]; v < call_->counters[inputs + i].current_version(); ++v)
        graph->output(layout.outputs[i]).unsafeGetTensorImpl()->bump_version();
    call_->graph = std::move(graph);
  }

  std::shared_ptr<ForwardCall> call_;
  const size_t piece_;
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

void hang(const std::shared_ptr<ForwardCall>& call, const std::vector<Edge>& edges,
          const std::vector<at::Tensor>& outputs) {
  const Layout& layout = call->training->layout();
  std::vector<c10::intrusive_ptr<torch::autograd::Node>> nodes(layout.pieces.size());
  for (size_t p = nodes.size(); p-- > 0;) {  // the engine calls those first that were made last
    const Piece& piece = layout.pieces[p];
    nodes[p] = c10::make_intrusive<RecordedBackward>(call, p);
    edge_list next;
    next.reserve(piece.uses.size());
    for (const Use& use : piece.uses)
      next.push_back(use.input >= 0 ? edges[static_cast<size_t>(use.input)]
                                    : Edge(nodes[static_cast<size_t>(use.piece)], static_cast<uint32_t>(use.slot)));
    nodes[p]->set_next_edges(std::move(next));
    for (size_t i = 0; i < piece.slots.size(); ++i) {
      const auto output = std::ranges::find(layout.outputs, piece.slots[i].output) - layout.outputs.begin();
      if (piece.slots[i].output != kNone)
        torch::autograd::impl::set_gradient_edge(outputs[static_cast<size_t>(output)],
                                                 Edge(nodes[p], static_cast<uint32_t>(i)));
    }
  }
}

}  // namespace gramme::native
