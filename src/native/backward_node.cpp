#include "native/backward_node.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "native/leaves.h"

namespace gramme::native {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::variable_list;

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

class RecordedBackward final : public NodeOfForward {
 public:
  RecordedBackward(std::shared_ptr<ForwardCall> call, size_t piece) : NodeOfForward(std::move(call)), piece_(piece) {
    for (const Slot& slot : this->piece().slots) add_slot(*this, slot);
  }

  ~RecordedBackward() override {
    std::lock_guard<std::recursive_mutex> lock(call->mutex);
    call->leave(piece_);
  }

  std::string name() const override { return "RecordedBackward"; }

  void release_variables() override {
    std::lock_guard<std::recursive_mutex> lock(call->mutex);
    call->drop();
  }

 private:
  const Piece& piece() const { return call->training->layout().pieces[piece_]; }

  variable_list apply(variable_list&& gradients) override {
    std::vector<bool> wanted(num_outputs());
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = task_should_compute_output(i);
    const bool create_graph = c10::GradMode::is_enabled();
    if (create_graph) call->training->stop("a graph of the backward was wanted");
    std::unique_lock<std::recursive_mutex> lock(call->mutex);
    const bool alone = is_only_pass(call);
    call->come(piece_, wanted, torch::autograd::get_current_graph_task_keep_graph());
    if (std::ranges::none_of(gradients, [](const at::Tensor& gradient) { return gradient.defined(); }))
      return variable_list(num_outputs());
    std::optional<BackwardKey> key = create_graph ? std::nullopt : BackwardKey::read(gradients, wanted);
    std::shared_ptr<const BackwardTape> tape = key ? call->training->find(piece_, *key) : nullptr;
    if (tape && call->may_run(*tape)) return run_tape(*tape, gradients, alone, lock);
    if (create_graph) return run_for_graph(gradients, wanted);
    if (!call->graph) {
      if (const std::optional<size_t> changed = call->changed_input()) {
        if (!tape && key) tape = record_on_other_data(*key, gradients);
        if (!tape || !call->may_run(*tape)) fail(*changed);
        return run_tape(*tape, gradients, alone, lock);
      }
      call->graph = call->run_again();
    }
    if (!key || tape) return call->graph->run(piece_, gradients, wanted, false);
    return record(*call->graph, std::move(*key), gradients).found;
  }

  /// The nodes that the gradients' own graph leads to are of a forward that nobody else goes back through: the engine
  /// frees what they saved before it comes here again.
  variable_list run_for_graph(const variable_list& gradients, const std::vector<bool>& wanted) {
    if (const std::optional<size_t> changed = call->changed_input()) fail(*changed);
    return call->run_again()->run(piece_, gradients, wanted, true);
  }

  variable_list run_tape(const BackwardTape& tape, variable_list& gradients, bool alone,
                         std::unique_lock<std::recursive_mutex>& lock) {
    variable_list given = take(tape, gradients);
    lock.unlock();
    const std::vector<bool> quiet = alone ? quiet_edges(*this, piece_) : std::vector<bool>();
    variable_list found = tape.run(std::move(given), quiet, Delivery(*this));
    take_edges(*this, quiet);
    return found;
  }

  /// What the tape reads. What nobody else will read is its own, and so are the gradients.
  variable_list take(const BackwardTape& tape, variable_list& gradients) {
    variable_list given;
    given.reserve(tape.sources().size());
    for (const BackwardSource& source : tape.sources()) {
      const auto index = static_cast<size_t>(source.index);
      if (source.kind == BackwardSource::Slot) {
        given.push_back(std::move(gradients[index]));
      } else if (call->is_input(source.index)) {
        given.push_back(call->inputs[index]);
      } else {
        const auto kept = static_cast<size_t>(call->plan->index[index]);
        at::Tensor& tensor = call->kept[kept];
        given.push_back(call->is_done(kept) ? std::move(tensor) : tensor);
      }
    }
    return given;
  }

  /// The gradients, and a tape if the backward is one.
  BackwardTape::Record record(EagerGraph& graph, BackwardKey key, const variable_list& gradients) {
    BackwardTape::Record record(graph, piece_, std::move(key), gradients);
    if (record.tape)
      call->training->add(piece_, record.tape);
    else
      call->training->stop(record.why);
    return record;
  }

  /// What a backward calls does not depend on data: an input that has changed since will do to write it down.
  std::shared_ptr<const BackwardTape> record_on_other_data(const BackwardKey& key, const variable_list& gradients) {
    record(*call->run_again(), key, gradients);
    return call->training->find(piece_, key);
  }

  [[noreturn]] void fail(size_t changed) const {
    const at::Tensor& input = call->inputs[changed];
    TORCH_CHECK(false, "gramme: this backward is not like those before it, so that the forward has to run again, but ",
                "a tensor that the forward was given (", input.toString(), " ", input.sizes(),
                ") has been modified by an inplace operation since");
  }

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
