// RecordedBackward runs one piece of a backward, by its tape, by the recorded engine graph, or by running the forward
// again; Entry nodes in front of it carry the names and hooks of autograd's nodes.
#include "training/backward_node.h"

#include <ATen/SequenceNumber.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <utility>

#include "tape/memory.h"
#include "training/compiled.h"
#include "training/graft.h"
#include "training/leaves.h"

namespace gramme::native {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::variable_list;
using torch::dynamo::autograd::CompiledNodeArgs;
using torch::dynamo::autograd::SwapSavedVariables;

void add_slot(Node& node, const Slot& slot) {
  node.add_input_metadata(slot.metadata.options(), slot.metadata.shape_as_dim_vector(),
                          slot.metadata.is_tensor_subclass(), slot.metadata.is_nested_tensor(),
                          slot.metadata.grad_dtype());
}

/// Scope in which tensors come from the memory of training steps, if the program allows it.
struct StepMemory {
  explicit StepMemory(const Training& training)
      : small_(Served::Small, training.caches_memory()), medium_(Served::Medium, training.caches_memory()) {}

 private:
  const MemoryScope small_, medium_;
};

/// The node that outputs show as grad_fn, named like autograd's; passes gradients on to the piece's node.
class Entry final : public Node {
 public:
  Entry(uint64_t number, std::string name) : Node(number), name_(std::move(name)) {}
  std::string name() const override { return name_; }
  void compiled_args(CompiledNodeArgs& /*args*/) const override {}
  variable_list apply_with_saved(const variable_list& gradients, SwapSavedVariables& /*saved*/) override {
    return gradients;
  }
  variable_list apply(variable_list&& gradients) override { return std::move(gradients); }

 private:
  const std::string name_;
};

/// The name of the node that makes the outputs of the piece's slots, if it is a single one and makes nothing else.
const std::string* name_of_outputs(const Piece& piece) {
  const Slot& first = piece.slots[0];
  const bool alike = std::ranges::all_of(
      piece.slots, [&](const Slot& slot) { return slot.output != kNone && slot.node == first.node; });
  return alike ? &first.name : nullptr;
}

class RecordedBackward final : public NodeOfForward {
 public:
  RecordedBackward(std::shared_ptr<ForwardCall> call, size_t piece, uint64_t number)
      : NodeOfForward(std::move(call), piece, number) {
    for (const Slot& slot : this->piece().slots) add_slot(*this, slot);
  }

  /// With weak references the destructor would come too late.
  void release_resources() override {
    if (const std::shared_ptr<ForwardCall> of = std::move(call)) {
      std::lock_guard<std::recursive_mutex> lock(of->mutex);
      of->leave(index);
    }
    NodeOfForward::release_resources();
  }

  std::string name() const override {
    const std::string* const name = name_of_outputs(piece());
    return name ? *name : "RecordedBackward";
  }

  void release_variables() override {
    if (!call) return;  // the node itself is destroyed
    std::lock_guard<std::recursive_mutex> lock(call->mutex);
    call->release(index);
  }

  bool run_by_tape(variable_list& gradients, const std::vector<bool>& quiet, variable_list& found) override {
    const StepMemory memory(*call->training);
    std::unique_lock<std::recursive_mutex> lock(call->mutex);
    const std::vector<bool> wanted(num_outputs(), true);
    const std::optional<BackwardKey> key = BackwardKey::read(gradients, wanted);
    const std::shared_ptr<const BackwardTape> tape = key ? call->training->find(index, *key) : nullptr;
    if (!tape || !call->may_run(*tape)) return false;
    call->come(index, wanted, false);
    found = run_tape(*tape, gradients, quiet, lock);
    return true;
  }

  // For compiled autograd, which calls the node in a graph for this node alone. Later calls are the engine's.
  void compiled_args(CompiledNodeArgs& args) const override {
    if (call->grafted) return;
    compiled_ = true;
    call->training->stop("compiled autograd went through the graph");
    collect(args);
  }
  variable_list apply_with_saved(const variable_list& gradients, SwapSavedVariables& saved) override;

 private:
  const Piece& piece() const { return call->training->layout().pieces[index]; }

  variable_list apply(variable_list&& gradients) override {
    const StepMemory memory(*call->training);
    std::unique_lock<std::recursive_mutex> lock(call->mutex);
    if (call->grafted) return hand_on(std::move(gradients));
    std::vector<bool> wanted(num_outputs());
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = task_should_compute_output(i);
    const bool create_graph = c10::GradMode::is_enabled();
    call->begin_pass();
    if (create_graph) call->training->stop_for_second_derivatives();
    const int pass = torch::autograd::get_current_graph_task_id();
    const bool is_first = call->pass != pass;
    // Compiled autograd's graph gives leaves their gradients after the node has returned.
    const bool alone = !compiled_ && is_only_pass(call);
    if (alone && pass >= 0 && current_pass().reentrant_depth_ == 0 &&
        (create_graph || (is_first && is_seen_between_nodes()))) {
      graft(*this);
      return hand_on(std::move(gradients));
    }
    const bool keep_graph = torch::autograd::get_current_graph_task_keep_graph();
    call->come(index, wanted, keep_graph);
    if (std::ranges::none_of(gradients, [](const at::Tensor& gradient) { return gradient.defined(); }))
      return variable_list(num_outputs());
    std::optional<BackwardKey> key = create_graph ? std::nullopt : BackwardKey::read(gradients, wanted);
    std::shared_ptr<const BackwardTape> tape = key ? call->training->find(index, *key) : nullptr;
    if (tape && call->may_run(*tape)) {
      const std::vector<bool> quiet = alone ? quiet_edges(*this, index) : std::vector<bool>();
      variable_list found = run_tape(*tape, gradients, quiet, lock);
      take_edges(*this, quiet);
      return found;
    }
    // The gradients' graph leads to nodes of a forward used by nothing else, so the engine frees what they saved before
    // it comes here again.
    call->check_arguments();
    if (create_graph) return call->run_again()->run(index, gradients, wanted, Pass::Differentiates);
    if (!call->graph) call->graph = call->run_again();
    const Pass how = keep_graph ? Pass::Keeps : Pass::Frees;
    const std::unique_ptr<EagerGraph> last = call->take_last();
    EagerGraph& graph = last ? *last : *call->graph;
    variable_list found =
        !key || tape ? graph.run(index, gradients, wanted, how) : record(graph, std::move(*key), gradients, how).found;
    lock.unlock();
    if (alone && call->heard) tell_reducer(found);
    return found;
  }

  /// True if the program sees what the running pass has done when it is between two of autograd's nodes.
  bool is_seen_between_nodes() {
    if (call->heard && !delivers_all_that_is_heard(*call))
      call->training->stop("a reducer hears of gradients in an order of the engine's");
    else if (is_heard_by_program(*call))
      call->training->stop("the program added a hook to a leaf after the forward");
    else
      return will_raise(*call);
    return true;
  }

  /// Delivers the gradients that a reducer hears of, and the others of leaves: the engine would do it in another order
  /// than that of autograd's nodes.
  void tell_reducer(variable_list& found) {
    const std::vector<bool> quiet = quiet_edges(*this, index);
    Delivery delivery(*this, quiet);
    if (!delivery.is_heard()) return;
    for (size_t use = 0; use < quiet.size(); ++use)
      if (quiet[use]) delivery.take(use, std::move(found[use]));
    take_edges(*this, quiet);
  }

  /// After grafting: autograd's own nodes follow this one (graft.h).
  variable_list hand_on(variable_list&& gradients) {
    gradients.resize(num_outputs());
    return std::move(gradients);
  }

  variable_list run_tape(const BackwardTape& tape, variable_list& gradients, const std::vector<bool>& quiet,
                         std::unique_lock<std::recursive_mutex>& lock) {
    call->recompute(tape);
    variable_list given = take(tape, gradients);
    lock.unlock();
    Delivery delivery(*this, quiet);
    variable_list found = tape.run(std::move(given), quiet,
                                   [&](size_t use, at::Tensor&& gradient) { delivery.take(use, std::move(gradient)); });
    delivery.finish();
    return found;
  }

  /// The tape's inputs. It owns the gradients, and kept tensors that have no other reader.
  variable_list take(const BackwardTape& tape, variable_list& gradients) {
    variable_list given;
    given.reserve(tape.sources().size());
    for (const BackwardSource& source : tape.sources()) {
      const auto number = static_cast<size_t>(source.index);
      if (source.kind == BackwardSource::Slot) {
        given.push_back(std::move(gradients[number]));
      } else if (call->is_input(source.index)) {
        given.push_back(call->inputs[number]);
      } else {
        const auto kept = static_cast<size_t>(call->plan->index[number]);
        at::Tensor& tensor = call->kept[kept];
        given.push_back(call->is_done(kept) ? std::move(tensor) : tensor);
      }
    }
    return given;
  }

  /// Runs the backward by the engine while recording it; returns the gradients, and a tape if one could be made.
  BackwardTape::Record record(EagerGraph& graph, BackwardKey key, const variable_list& gradients, Pass pass) {
    BackwardTape::Record record(graph, index, std::move(key), gradients, pass);
    if (record.tape)
      call->training->add(index, record.tape);
    else
      call->training->stop(record.why);
    return record;
  }

  mutable std::atomic<bool> compiled_ = false;  // compiled autograd went through the graph
};

variable_list RecordedBackward::apply_with_saved(const variable_list& gradients, SwapSavedVariables& saved) {
  if (call->grafted) return hand_on(variable_list(gradients));
  auto apply = [self = getptr()](variable_list&& gradients) {
    return static_cast<RecordedBackward&>(*self).apply(std::move(gradients));
  };
  return call_in_graph(apply, next_edges(), gradients, saved);
}

/// By slot: the edge for its gradient, to the piece's node or through an Entry. There is an Entry for each autograd
/// node that makes outputs, because hooks of an output must run exactly if that node would run. The engine calls
/// Entries in autograd's order.
std::vector<Edge> ends_of(const Piece& piece, const c10::intrusive_ptr<Node>& node) {
  uint64_t number = node->sequence_nr();
  std::map<size_t, std::vector<size_t>, std::greater<>> groups;  // slots by node, latest in the engine's order first
  std::vector<Edge> ends;
  for (size_t i = 0; i < piece.slots.size(); ++i) {
    ends.emplace_back(node, static_cast<uint32_t>(i));
    if (piece.slots[i].output != kNone) groups[piece.slots[i].node].push_back(i);
  }
  if (name_of_outputs(piece)) return ends;
  for (const auto& [made_by, slots] : groups) {
    const auto entry = c10::make_intrusive<Entry>(++number, piece.slots[slots[0]].name);
    edge_list next;
    for (size_t i : slots) {
      add_slot(*entry, piece.slots[i]);
      next.push_back(std::exchange(ends[i], Edge(entry, static_cast<uint32_t>(next.size()))));
    }
    entry->set_next_edges(std::move(next));
  }
  return ends;
}

/// Takes `count` consecutive sequence numbers, as if the thread had made nodes.
uint64_t take_numbers(uint64_t count) {
  const uint64_t first = at::sequence_number::peek();
  for (uint64_t i = 0; i < count; ++i) at::sequence_number::get_and_increment();
  return first;
}

}  // namespace

bool is_of_forward(const Node& node) {
  return dynamic_cast<const NodeOfForward*>(&node) || dynamic_cast<const Entry*>(&node);
}

void hang(const std::shared_ptr<ForwardCall>& call, const std::vector<Edge>& edges,
          const std::vector<at::Tensor>& outputs) {
  const Layout& layout = call->training->layout();
  std::vector<std::vector<Edge>> ends(layout.pieces.size());
  call->first_number = take_numbers(layout.numbers);
  call->nodes.resize(layout.pieces.size(), c10::weak_intrusive_ptr<Node>(c10::intrusive_ptr<Node>()));
  call->ends.resize(layout.outputs.size(), {c10::weak_intrusive_ptr<Node>(c10::intrusive_ptr<Node>()), 0});
  for (size_t p = layout.pieces.size(); p-- > 0;) {  // the engine calls nodes in reverse order of creation
    const Piece& piece = layout.pieces[p];
    const c10::intrusive_ptr<Node> node =
        c10::make_intrusive<RecordedBackward>(call, p, call->first_number + piece.number);
    call->nodes[p] = node;
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
      call->ends[static_cast<size_t>(output)] = {c10::weak_intrusive_ptr<Node>(ends[p][i].function),
                                                 ends[p][i].input_nr};
    }
  }
}

}  // namespace gramme::native
