// Running a flat tape under autograd, cutting its graph at inputs and outputs, dividing the nodes into pieces, and
// running single pieces by the engine.
#include "training/eager_graph.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "passes/functional.h"
#include "record/nodes.h"
#include "record/saved.h"
#include "tape/frames.h"
#include "tape/registers.h"

namespace gramme::native {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::variable_list;

const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

/// Versions of tensors whose in-place writes were replaced by operators that make new tensors, where the new tensor
/// cannot have the version itself because its formula saved it before.
class Overwritten {
 public:
  uint32_t version(const at::Tensor& tensor) const {
    const auto found = before_.find(storage_of(tensor));
    return static_cast<uint32_t>(tensor._version()) + (found == before_.end() ? 0 : found->second.versions);
  }
  /// Notes that the tensor stands for one with this version.
  void note(const at::Tensor& made, uint32_t version) {
    Before& before = before_[storage_of(made)];
    before.storage = c10::weak_intrusive_ptr<c10::StorageImpl>(
        c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(made.storage().unsafeGetStorageImpl()));
    before.versions = version;
  }

 private:
  struct Before {
    std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> storage;  // keeps the address from being reused
    uint32_t versions = 0;
  };
  std::unordered_map<const c10::StorageImpl*, Before> before_;
};

/// True if an operand other than the first is in the written memory.
bool reads_written(const Instruction& instruction, const at::Tensor& written, const Run& run) {
  const auto& arguments = instruction.call->arguments;
  return std::any_of(arguments.begin() + 1, arguments.end(), [&](const OperatorArgument& argument) {
    return std::ranges::any_of(argument.registers, [&](Register r) {
      return r != kNone && run.tensors[r] && storage_of(*run.tensors[r]) == storage_of(written);
    });
  });
}

void run_instruction(const Instruction& instruction, Run& run, Overwritten& overwritten) {
  if (!instruction.call || !instruction.call->overwrites) return instruction.invoke(instruction, run);
  const at::Tensor& written = *run.tensors[instruction.call->arguments[0].registers[0]];
  const bool reads_itself = reads_written(instruction, written, run);
  written.unsafeGetTensorImpl()->bump_version();
  instruction.invoke(instruction, run);
  const at::Tensor& made = run.own[instruction.call->results[0].registers[0]];
  const uint32_t version = overwritten.version(written);
  if (reads_itself) written.unsafeGetTensorImpl()->bump_version();  // x.mul_(x) overwrites what its formula saved
  if (formula_saves_result(instruction.call->op)) return overwritten.note(made, version);
  for (uint32_t i = 0; i < version; ++i) made.unsafeGetTensorImpl()->bump_version();
}

}  // namespace

Exit::Exit(const Edge& to) : Node(edge_list{to}) {
  const torch::autograd::InputMetadata& expected = to.function->input_metadata(to.input_nr);
  add_input_metadata(expected.options(), expected.shape_as_dim_vector(), expected.is_tensor_subclass(),
                     expected.is_nested_tensor(), expected.grad_dtype());
}

bool Layout::matches(const Layout& other) const {
  return std::ranges::equal(pieces, other.pieces, [](const Piece& a, const Piece& b) {
    return a.uses == b.uses &&
           std::ranges::equal(a.slots, b.slots, [](const Slot& a, const Slot& b) { return a.output == b.output; });
  });
}

EagerGraph::EagerGraph(const Tape& flat, const std::vector<at::Tensor>& inputs, size_t* at)
    : flat_(flat),
      recorder_(std::make_shared<Recorder>(Apart::Composites, false)),
      registers_(static_cast<size_t>(flat.registers), kNone) {
  recorder_->pass_over_ranges();
  run_forward(inputs, at);
  fits_ = has_plain_ends(inputs) && cut(inputs);
}

void EagerGraph::note(Register r, const at::Tensor& tensor) {
  registers_[static_cast<size_t>(r)] = recorder_->add(tensor);
  recorder_->note_place(registers_[static_cast<size_t>(r)], tensor);
}

void EagerGraph::run_forward(const std::vector<at::Tensor>& inputs, size_t* at) {
  Frame frame(flat_);
  Overwritten overwritten;
  recorder_->reserve(static_cast<size_t>(flat_.registers));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Register r = flat_.inputs[i].index;
    frame.own[static_cast<size_t>(r)] = inputs[i];
    note(r, inputs[i]);
  }
  for (const auto& [r, tensor] : flat_.constants) registers_[static_cast<size_t>(r)] = recorder_->constant(tensor);
  Run run = frame.run();
  for (size_t i = 0; i < inputs.size(); ++i)
    frame.tensors[static_cast<size_t>(flat_.inputs[i].index)] = &frame.own[static_cast<size_t>(flat_.inputs[i].index)];
  for (*at = 0; *at < flat_.instructions.size(); ++*at) {
    const Instruction& instruction = flat_.instructions[*at];
    {
      std::optional<at::AutoDispatchBelowADInplaceOrView> below;
      if (instruction.below_autograd) below.emplace();
      run_instruction(instruction, run, overwritten);
    }
    each_write(instruction, [&](Register r) { note(r, run.own[r]); });
    for (Register r : instruction.frees) run.own[r].reset();
  }
  each_register(flat_.output[0], [&](Register r) {
    outputs_.try_emplace(r, *run.tensors[r]);
    versions_.try_emplace(r, overwritten.version(*run.tensors[r]));
  });
}

/// True if no output shares memory observably: with an input, another output, or the hidden base of a view.
bool EagerGraph::has_plain_ends(const std::vector<at::Tensor>& inputs) const {
  std::unordered_set<const c10::StorageImpl*> taken;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Register r = registers_[static_cast<size_t>(flat_.inputs[i].index)];
    if (!recorder_->seen(r).plain || inputs[i].is_inference()) return false;
    taken.insert(storage_of(inputs[i]));
  }
  for (const auto& [r, tensor] : outputs_) {
    if (r < static_cast<Register>(inputs.size())) continue;
    if (!recorder_->seen(registers_[static_cast<size_t>(r)]).plain || !taken.insert(storage_of(tensor)).second)
      return false;
    if (!tensor.is_view()) continue;
    if (!tensor.requires_grad() || torch::autograd::impl::get_view_autograd_meta(tensor)->get_creation_meta() !=
                                       torch::autograd::CreationMeta::DEFAULT)
      return false;
  }
  return true;
}

bool EagerGraph::cut(const std::vector<at::Tensor>& inputs) {
  std::unordered_set<Register> seen;
  each_register(flat_.output[0], [&](Register r) {
    const bool made = r >= static_cast<Register>(inputs.size());
    if (made && outputs_.at(r).requires_grad() && seen.insert(r).second) layout_.outputs.push_back(r);
  });
  if (layout_.outputs.empty() || !find_nodes(inputs)) return false;
  find_pieces();
  find_uses();
  number_pieces();
  return true;
}

/// False if there is an unknown kind of node, or one that the engine may call in an order other than reverse creation.
bool EagerGraph::find_nodes(const std::vector<at::Tensor>& inputs) {
  std::unordered_set<const Node*> outer;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad()) continue;
    const Edge edge = torch::autograd::impl::gradient_edge(inputs[i]);
    if (std::ranges::find(boundary_, edge, &Boundary::first) != boundary_.end()) has_equal_inputs_ = true;
    boundary_.emplace_back(edge, static_cast<int32_t>(i));
    outer.insert(boundary_.back().first.function.get());
  }
  if (has_equal_inputs_) return false;
  std::unordered_set<const Node*> known;
  auto add = [&](const Edge& edge) {
    if (!outer.contains(edge.function.get()) && known.insert(edge.function.get()).second)
      nodes_.push_back(edge.function);
  };
  for (Register r : layout_.outputs) add(torch::autograd::impl::gradient_edge(outputs_.at(r)));
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const NodePtr node = nodes_[i];
    if (!is_known_node(*node)) {
      why_not_ = node->name() + ": a node that is not known";
      return false;
    }
    for (const Edge& edge : node->next_edges()) {
      if (!edge.is_valid()) continue;
      const bool ends = outer.contains(edge.function.get());
      if (ends && std::ranges::find(boundary_, edge, &Boundary::first) == boundary_.end()) return false;
      if (!ends && edge.function->sequence_nr() >= node->sequence_nr()) return false;
      add(edge);
    }
  }
  std::ranges::sort(nodes_, [](const NodePtr& a, const NodePtr& b) { return a->sequence_nr() > b->sequence_nr(); });
  for (Register r : layout_.outputs) {
    const Edge made = torch::autograd::impl::gradient_edge(outputs_.at(r));
    if (!known.contains(made.function.get())) return false;
  }
  return true;
}

void EagerGraph::find_pieces() {
  std::unordered_map<const Node*, std::vector<Edge>> outputs;
  for (Register r : layout_.outputs) {
    const Edge made = torch::autograd::impl::gradient_edge(outputs_.at(r));
    outputs[made.function.get()].push_back(made);
  }
  // By node: the output nodes that lead to it, including itself.
  std::unordered_map<const Node*, std::vector<bool>> leading;
  std::unordered_set<const Node*> read;  // nodes with a result that is both an output and read inside
  size_t count = 0;
  const std::vector<bool>* before = nullptr;
  for (const NodePtr& node : nodes_) {
    std::vector<bool>& to_node = leading.try_emplace(node.get(), outputs.size()).first->second;
    if (outputs.contains(node.get())) to_node[count++] = true;
    if (!before || *before != to_node || read.contains(node.get())) layout_.pieces.emplace_back();
    piece_of_[node.get()] = layout_.pieces.size() - 1;
    ++layout_.pieces.back().nodes;
    before = &to_node;
    for (const Edge& edge : node->next_edges()) {
      if (!edge.is_valid()) continue;
      std::vector<bool>& to_next = leading.try_emplace(edge.function.get(), outputs.size()).first->second;
      for (size_t i = 0; i < to_node.size(); ++i)
        if (to_node[i]) to_next[i] = true;
      const auto found = outputs.find(edge.function.get());
      if (found != outputs.end() && std::ranges::find(found->second, edge) != found->second.end())
        read.insert(edge.function.get());
    }
  }
  slots_.resize(layout_.pieces.size());
  leaving_.resize(layout_.pieces.size());
  for (Register r : layout_.outputs) {
    const Edge made = torch::autograd::impl::gradient_edge(outputs_.at(r));
    const size_t piece = piece_of_.at(made.function.get());
    const size_t node = static_cast<size_t>(std::ranges::find(nodes_, made.function) - nodes_.begin());
    layout_.pieces[piece].slots.push_back(
        {r, made.function->input_metadata(made.input_nr), node, made.function->name()});
    slots_[piece].push_back(made);
  }
}

int32_t EagerGraph::slot_of(size_t piece, const Edge& edge) {
  std::vector<Edge>& slots = slots_[piece];
  const auto found = std::ranges::find(slots, edge);
  const auto index = static_cast<int32_t>(found - slots.begin());
  if (found == slots.end()) {
    slots.push_back(edge);
    layout_.pieces[piece].slots.push_back({kNone, edge.function->input_metadata(edge.input_nr), 0, {}});
  }
  return index;
}

void EagerGraph::find_uses() {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const NodePtr& node = nodes_[i];
    const size_t piece = piece_of_.at(node.get());
    for (Edge& edge : node->next_edges()) {
      if (!edge.is_valid()) continue;
      Use use;
      use.node = i;
      const auto inner = piece_of_.find(edge.function.get());
      if (inner == piece_of_.end()) {
        use.input = std::ranges::find(boundary_, edge, &Boundary::first)->second;
      } else if (inner->second != piece) {
        use.piece = static_cast<int32_t>(inner->second);
        use.slot = slot_of(inner->second, edge);
      } else {
        continue;
      }
      layout_.pieces[piece].uses.push_back(use);
      edge = Edge(c10::make_intrusive<Exit>(edge), 0);
      leaving_[piece].push_back(edge);
    }
  }
}

void EagerGraph::number_pieces() {
  for (size_t p = layout_.pieces.size(); p-- > 0;) {
    Piece& piece = layout_.pieces[p];
    piece.number = layout_.numbers + piece.nodes;
    layout_.numbers = piece.number + 1 + piece.slots.size();
  }
}

std::unordered_map<Register, Register> EagerGraph::flat_registers() const {
  std::unordered_map<Register, Register> flat;
  for (Register r = 0; r < flat_.registers; ++r)
    if (registers_[static_cast<size_t>(r)] != kNone) flat[registers_[static_cast<size_t>(r)]] = r;
  for (const auto& [r, tensor] : flat_.constants) flat.erase(registers_[static_cast<size_t>(r)]);
  return flat;
}

std::vector<Saver> EagerGraph::savers() const {
  const std::unordered_map<Register, Register> flat = flat_registers();
  std::unordered_map<const Node*, size_t> uses;  // by the Exit on the edge
  for (const std::vector<Edge>& edges : leaving_)
    for (size_t use = 0; use < edges.size(); ++use) uses[edges[use].function.get()] = use;
  std::unordered_map<const Node*, std::vector<bool>> leads;
  std::vector<Saver> found;
  for (size_t i = nodes_.size(); i-- > 0;) {
    const size_t piece = piece_of_.at(nodes_[i].get());
    std::vector<bool>& from_here = leads[nodes_[i].get()];
    from_here.resize(layout_.pieces[piece].uses.size());
    for (const Edge& edge : nodes_[i]->next_edges()) {
      if (!edge.is_valid()) continue;
      if (const auto use = uses.find(edge.function.get()); use != uses.end()) {
        from_here[use->second] = true;
        continue;
      }
      const std::vector<bool>& from_next = leads.at(edge.function.get());
      for (size_t use = 0; use < from_next.size(); ++use)
        if (from_next[use]) from_here[use] = true;
    }
    const std::vector<at::Tensor> saved = saved_by(nodes_[i]);
    if (saved.empty()) continue;
    Saver& saver = found.emplace_back(Saver{piece, i, {}, from_here});
    for (const at::Tensor& tensor : saved)
      if (const auto known = flat.find(recorder_->find_or_place(tensor)); known != flat.end()) {
        saver.saved.push_back(known->second);
        // A view of an input keeps that alive.
        const auto base =
            tensor.is_view() ? flat.find(recorder_->find(at::Tensor(at::TensorBase(tensor._base())))) : flat.end();
        if (base != flat.end() && base->second < static_cast<Register>(flat_.inputs.size()))
          saver.saved.push_back(base->second);
      }
  }
  std::ranges::reverse(found);
  return found;
}

void EagerGraph::join(const std::vector<edge_list>& edges) {
  std::unordered_map<const Node*, const Edge*> leads;  // by the Exit at the cut
  for (size_t piece = 0; piece < leaving_.size(); ++piece)
    for (size_t use = 0; use < edges[piece].size(); ++use)
      leads[leaving_[piece][use].function.get()] = &edges[piece][use];
  for (const NodePtr& node : nodes_)
    for (Edge& edge : node->next_edges())
      if (const auto found = leads.find(edge.function.get()); found != leads.end()) edge = *found->second;
}

void EagerGraph::rejoin(const std::vector<Edge>& inputs) {
  std::vector<edge_list> edges;
  for (const Piece& piece : layout_.pieces) {
    edges.emplace_back();
    for (const Use& use : piece.uses)
      edges.back().push_back(use.input >= 0 ? inputs[static_cast<size_t>(use.input)]
                                            : slots_[static_cast<size_t>(use.piece)][static_cast<size_t>(use.slot)]);
  }
  join(edges);
}

variable_list EagerGraph::run(size_t piece, const variable_list& gradients, const std::vector<bool>& wanted,
                              Pass pass) const {
  variable_list found(wanted.size()), given;
  edge_list roots, exits;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    roots.push_back(slots_[piece][i]);
    given.push_back(gradients[i]);
  }
  for (size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i]) exits.push_back(leaving_[piece][i]);
  if (roots.empty() || exits.empty()) return found;
  variable_list left = torch::autograd::Engine::get_default_engine().execute(
      roots, given, pass != Pass::Frees, pass == Pass::Differentiates, false, exits);
  for (size_t i = 0, next = 0; i < wanted.size(); ++i)
    if (wanted[i]) found[i] = std::move(left[next++]);
  return found;
}

}  // namespace gramme::native
