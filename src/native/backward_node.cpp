#include "native/backward_node.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <functional>
#include <map>
#include <sstream>
#include <typeinfo>
#include <utility>

#include "base/error.h"
#include "native/invoke.h"

namespace gramme::native {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;
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

/// Do gradients that go along the edge end in a leaf's .grad, and does nobody hear of it?
bool ends_quietly(const Edge& edge) {
  Node& node = *edge.function;
  return typeid(node) == typeid(AccumulateGrad) && node.pre_hooks().empty() && node.post_hooks().empty() &&
         node.tensor_pre_hooks().empty() && node.retains_grad_hooks().empty() &&
         node.tensor_post_acc_grad_hooks() == nullptr;
}

/// So many edges of other nodes are looked at for whether they lead to the same leaves.
constexpr size_t kForeignEdges = 64;

void add_slot(Node& node, const Slot& slot) {
  node.add_input_metadata(slot.metadata.options(), slot.metadata.shape_as_dim_vector(),
                          slot.metadata.is_tensor_subclass(), slot.metadata.is_nested_tensor(),
                          slot.metadata.grad_dtype());
}

/// What outputs show as their node; hands gradients on to the piece's.
class Entry final : public Node {
 public:
  std::string name() const override { return "RecordedBackward"; }
  variable_list apply(variable_list&& gradients) override { return std::move(gradients); }
};

class RecordedBackward final : public torch::autograd::Node {
 public:
  RecordedBackward(std::shared_ptr<ForwardCall> call, size_t piece) : call_(std::move(call)), piece_(piece) {
    for (const Slot& slot : this->piece().slots) add_slot(*this, slot);
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
    call_->before.clear();
    call_->graph.reset();
  }

 private:
  const Piece& piece() const { return call_->training->layout().pieces[piece_]; }

  variable_list apply(variable_list&& gradients) override {
    std::vector<bool> wanted(num_outputs());
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = task_should_compute_output(i);
    const bool create_graph = c10::GradMode::is_enabled();
    if (create_graph) call_->training->stop("a graph of the backward was wanted");
    std::unique_lock<std::recursive_mutex> lock(call_->mutex);
    const bool alone = is_only_pass();
    if (std::ranges::none_of(gradients, [](const at::Tensor& gradient) { return gradient.defined(); }))
      return variable_list(num_outputs());
    std::optional<BackwardKey> key = create_graph ? std::nullopt : BackwardKey::read(gradients, wanted);
    const std::shared_ptr<const BackwardTape> tape = key ? call_->training->find(piece_, *key) : nullptr;
    if (tape && may_run(*tape)) {
      variable_list given = take(*tape, gradients);
      lock.unlock();
      const std::vector<bool> quiet = alone && reads_forward(*tape) ? quiet_edges() : std::vector<bool>();
      variable_list found = tape->run(std::move(given), quiet, Delivery(*this));
      take_edges(quiet);
      return found;
    }
    if (tape) key.reset();  // there is nothing new to write down
    return run_eagerly(std::move(key), gradients, wanted, create_graph);
  }

  // ---- gradients of leaves
  //
  // The engine takes longer to bring a gradient to .grad than kernels take to make it. Where nobody can tell the
  // difference the node does that itself: this is the only pass over the graph, which will be gone after it; no other
  // node has a gradient for the leaf; nobody hears of any of it. The edges are taken away for the rest of the pass.

  struct PassEnd {
    explicit PassEnd(std::shared_ptr<ForwardCall> call) : call(std::move(call)), pass(this->call->pass) {}
    ~PassEnd() { call->end_pass(pass); }
    PassEnd(const PassEnd&) = delete;
    const std::shared_ptr<ForwardCall> call;
    const int pass;
  };

  /// Is the pass under way the only one over the nodes? They note it.
  bool is_only_pass() {
    const int pass = torch::autograd::get_current_graph_task_id();
    if (call_->pass == pass) return !call_->passes_overlap;
    if (call_->pass >= 0) call_->passes_overlap = true;
    if (call_->passes_overlap) return false;
    call_->pass = pass;
    auto end = std::make_shared<const PassEnd>(call_);  // goes with what the engine keeps of the pass, however it ends
    torch::autograd::Engine::get_default_engine().queue_callback([end] { end->call->end_pass(end->pass); });
    return true;
  }

  /// A second backward raises then.
  static bool reads_forward(const BackwardTape& tape) {
    return std::ranges::any_of(tape.sources(),
                               [](const BackwardSource& source) { return source.kind == BackwardSource::Kept; });
  }

  /// Does what the engine does with gradients of leaves.
  class Delivery {
   public:
    explicit Delivery(RecordedBackward& node) : node_(node) {}
    void operator()(size_t use, at::Tensor&& gradient) {
      c10::impl::ForceDispatchKeyGuard outer(modes_);
      const at::AutoDispatchBelowAutograd below;
      variable_list one(1);
      one[0] = std::move(gradient);
      static_cast<AccumulateGrad&>(*node_.next_edge(use).function).apply(std::move(one));
    }

   private:
    RecordedBackward& node_;
    const c10::impl::LocalDispatchKeySet modes_ = c10::impl::tls_local_dispatch_key_set();
  };

  /// For the rest of the pass.
  void take_edges(const std::vector<bool>& quiet) {
    if (quiet.empty()) return;
    std::lock_guard<std::recursive_mutex> lock(call_->mutex);
    for (size_t i = 0; i < quiet.size(); ++i)
      if (quiet[i])
        call_->taken.push_back({c10::weak_intrusive_ptr<Node>(getptr()), i, std::exchange(next_edges()[i], {})});
  }

  /// By use: does its edge lead to a leaf that no other edge of the pass leads to? Empty: none does.
  std::vector<bool> quiet_edges() {
    const auto* const chosen = torch::autograd::get_current_graph_task_exec_info();
    if (torch::autograd::get_current_graph_task_keep_graph() || !chosen || !chosen->empty() || !unwatched() ||
        !post_hooks().empty())
      return {};
    const std::vector<Use>& uses = piece().uses;
    std::vector<bool> quiet(uses.size());
    std::vector<const Node*> leaves;
    for (size_t i = 0; i < uses.size(); ++i) {
      const Edge& edge = next_edge(i);
      if (uses[i].input < 0 || !edge.is_valid() || !call_->training->is_used_once(uses[i].input)) continue;
      if (!ends_quietly(edge)) continue;
      quiet[i] = true;
      leaves.push_back(edge.function.get());
    }
    std::ranges::sort(leaves);
    const bool shared = std::ranges::adjacent_find(leaves) != leaves.end();
    if (leaves.empty() || shared || is_any_reached(leaves)) return {};
    return quiet;
  }

  /// From nodes that are not of this forward? True if there are too many to tell.
  bool is_any_reached(const std::vector<const Node*>& leaves) {
    std::lock_guard<std::recursive_mutex> lock(call_->mutex);
    if (!call_->reached) call_->reached = reached_leaves();
    return call_->reached->size() > kForeignEdges || std::ranges::any_of(*call_->reached, [&](const Node* leaf) {
             return std::ranges::binary_search(leaves, leaf);
           });
  }

  std::vector<const Node*> reached_leaves() const {
    std::vector<const Node*> reached;
    for (const Node* node : *torch::autograd::get_current_graph_task_nodes_in_graph()) {
      if (node->num_outputs() == 0 || is_of_forward(*node)) continue;
      for (const Edge& edge : node->next_edges())
        if (edge.is_valid() && edge.function->num_outputs() == 0) reached.push_back(edge.function.get());
      if (reached.size() > kForeignEdges) break;
    }
    return reached;
  }

  bool is_of_forward(const Node& node) const {
    return typeid(node) == typeid(RecordedBackward) && static_cast<const RecordedBackward&>(node).call_ == call_;
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

  bool is_written(size_t input) const { return call_->training->written(input) != Training::Written::No; }

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
      if (!is_changed(i) || call_->training->written(i) == Training::Written::Counted) continue;
      for (size_t k = 0; k < call_->plan->kept.size(); ++k)
        if (call_->training->owner(call_->plan->kept[k]) == static_cast<int32_t>(i))
          check_version(call_->plan->kept[k]);
      TORCH_CHECK(false,
                  "gramme: this backward is not like those before it, so that the forward has to run again, but ",
                  "a tensor that the forward was given (", call_->inputs[i].toString(), " ", call_->inputs[i].sizes(),
                  ") has been modified by an inplace operation since");
    }
    std::vector<at::Tensor> given = call_->inputs;
    for (size_t i = 0, next = 0; i < inputs; ++i)
      if (is_written(i)) given[i] = call_->before[next++].clone();
    PlainForward plain;
    FromState random(call_->random);
    size_t at = 0;
    auto graph = std::make_unique<EagerGraph>(call_->training->flat(), given, &at);
    const Layout& layout = call_->training->layout();
    if (!graph->fits() || !graph->layout().matches(layout))
      GRAMME_BUG("a call of a tape has another graph than the first");
    const std::vector<Register>& shown = call_->training->shown();
    for (size_t i = 0; i < shown.size(); ++i)
      for (uint32_t v = call_->versions[inputs + i]; v < call_->counters[inputs + i].current_version(); ++v)
        graph->output(shown[i]).unsafeGetTensorImpl()->bump_version();
    call_->graph = std::move(graph);
  }

  std::shared_ptr<ForwardCall> call_;
  const size_t piece_;
};

/// Where gradients of the piece's slots go, by slot: to its node; or by way of a node for each of autograd's that makes
/// outputs, since hooks of an output are called if that node is, and not if the piece is. The engine calls them in the
/// order of autograd's.
std::vector<Edge> ends_of(const Piece& piece, const c10::intrusive_ptr<Node>& node) {
  std::map<size_t, std::vector<size_t>, std::greater<>> groups;  // slots by node; the last in the engine's order first
  std::vector<Edge> ends;
  for (size_t i = 0; i < piece.slots.size(); ++i) {
    ends.emplace_back(node, static_cast<uint32_t>(i));
    if (piece.slots[i].output != kNone) groups[piece.slots[i].node].push_back(i);
  }
  if (groups.size() == 1 && groups.begin()->second.size() == piece.slots.size()) return ends;
  for (const auto& [made_by, slots] : groups) {
    const auto entry = c10::make_intrusive<Entry>();
    edge_list next;
    for (size_t i : slots) {
      add_slot(*entry, piece.slots[i]);
      next.push_back(std::exchange(ends[i], Edge(entry, static_cast<uint32_t>(next.size()))));
    }
    entry->set_next_edges(std::move(next));
  }
  return ends;
}

}  // namespace

void ForwardCall::end_pass(int ended) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  if (pass != ended) return;
  for (TakenEdge& edge : taken)
    if (auto node = edge.node.lock()) node->next_edges()[edge.index] = std::move(edge.edge);
  taken.clear();
  reached.reset();
  pass = -1;
}

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
  std::vector<std::vector<Edge>> ends(layout.pieces.size());
  for (size_t p = layout.pieces.size(); p-- > 0;) {  // the engine calls those first that were made last
    const Piece& piece = layout.pieces[p];
    const c10::intrusive_ptr<Node> node = c10::make_intrusive<RecordedBackward>(call, p);
    edge_list next;
    next.reserve(piece.uses.size());
    for (const Use& use : piece.uses)
      next.push_back(use.input >= 0 ? edges[static_cast<size_t>(use.input)]
                                    : ends[static_cast<size_t>(use.piece)][static_cast<size_t>(use.slot)]);
    node->set_next_edges(std::move(next));
    ends[p] = ends_of(piece, node);
    for (size_t i = 0; i < piece.slots.size(); ++i) {
      if (piece.slots[i].output == kNone) continue;
      const auto output = std::ranges::find(layout.outputs, piece.slots[i].output) - layout.outputs.begin();
      torch::autograd::impl::set_gradient_edge(outputs[static_cast<size_t>(output)], ends[p][i]);
    }
  }
}

}  // namespace gramme::native
