// Autograd's own graph of one call: a flat tape run under autograd, as the program would have been, and cut into
// pieces.
//
// A piece is a run of nodes, in the order in which the engine calls them, that the same outputs lead to: so the engine
// comes to whatever the program may have hooks on if and only if it did in autograd's graph. One begins, too, at each
// node whose result is both an output and read inside: its gradient must be whole, and hooks of the program have seen
// it, before the node runs.
// What leaves a piece goes through an edge of its own, one for each use, so that whoever adds up several gradients of
// one tensor does it in the order, and thus with the bits, of the engine.
#pragma once
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/input_metadata.h>
#include <torch/csrc/autograd/node.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "native/recorder.h"
#include "native/saved.h"
#include "native/tape.h"

namespace gramme::native {

/// Where a gradient comes in.
struct Slot {
  Register output = kNone;  // of the flat tape; none: what pieces before this one give
  torch::autograd::InputMetadata metadata;
  size_t node = 0;   // that makes the output, by the order in which the engine calls them
  std::string name;  // of that node
};

/// Where a gradient goes: to an input of the tape, or to a slot of a later piece.
struct Use {
  int32_t input = -1, piece = -1, slot = -1;
  bool operator==(const Use&) const = default;
};

struct Piece {
  size_t nodes = 0;
  uint64_t number = 0;  // of the piece's node: below it are those of its nodes, above it those of its outputs
  std::vector<Slot> slots;
  std::vector<Use> uses;  // in the order in which the engine delivers them
};

/// A node of autograd that saved something: each time the engine calls it that must be there, and as it was.
struct Saver {
  size_t piece, node;           // by the order in which the engine calls them
  std::vector<Register> saved;  // of the flat tape, as far as registers stand for it
  std::vector<bool> leads;      // to which uses of the piece
};

/// What the graphs of all calls of one tape have in common.
struct Layout {
  std::vector<Piece> pieces;  // in the order of the engine
  std::vector<Register> outputs;
  uint64_t numbers = 0;  // by which the engine orders nodes, the highest first
  bool matches(const Layout& other) const;
};

/// Stands on an edge, and hands on what comes.
class Exit final : public torch::autograd::Node {
 public:
  explicit Exit(const torch::autograd::Edge& to);
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    return std::move(gradients);
  }
};

class EagerGraph {
 public:
  /// Runs the tape. On an exception `*at` is the instruction that threw it.
  EagerGraph(const Tape& flat, const std::vector<at::Tensor>& inputs, size_t* at);
  EagerGraph(const EagerGraph&) = delete;

  /// False if it was cut. Else it is as the program would have left it.
  bool fits() const { return fits_; }
  /// True if two inputs of this call are one tensor, or have one gradient. Nobody can tell then to which of them it
  /// goes.
  bool has_equal_inputs() const { return has_equal_inputs_; }
  /// Why it was not.
  const std::string& why_not() const { return why_not_; }
  const Layout& layout() const { return layout_; }
  /// By register of the flat tape; those of outputs are there.
  at::Tensor& output(Register r) { return outputs_.at(r); }

  /// The version that the output has where the program runs eagerly: writes to it that the tape replaced count.
  uint32_t version(Register r) const { return versions_.at(r); }

  /// The gradients that leave the piece; `wanted`, by use: the others stay undefined.
  torch::autograd::variable_list run(size_t piece, const torch::autograd::variable_list& gradients,
                                     const std::vector<bool>& wanted, bool create_graph) const;

  /// In the order of the engine. Raises if a formula would.
  std::vector<Saver> savers() const;
  /// Calls `see(saved tensor, register of the flat tape)`, as far as registers stand for what nodes saved.
  template <class See>
  void each_saved(See&& see) const;
  /// In the order of the engine.
  const std::vector<c10::intrusive_ptr<torch::autograd::Node>>& nodes() const { return nodes_; }
  /// What makes the gradients' way from a piece's slots on, by slot.
  const std::vector<torch::autograd::Edge>& slots(size_t piece) const { return slots_[piece]; }
  /// Where it was cut, gradients go along `edges` (by piece, by use) from now on.
  void join(const std::vector<torch::autograd::edge_list>& edges);

  const std::shared_ptr<Recorder>& recorder() const { return recorder_; }
  /// The recorder's registers, by register of the flat tape.
  const std::vector<Register>& registers() const { return registers_; }
  /// The flat tape's registers, by the recorder's. Without constants.
  std::unordered_map<Register, Register> flat_registers() const;

 private:
  using Node = torch::autograd::Node;
  using NodePtr = c10::intrusive_ptr<Node>;
  using Boundary = std::pair<torch::autograd::Edge, int32_t>;  // of an input

  void run_forward(const std::vector<at::Tensor>& inputs, size_t* at);
  void note(Register r, const at::Tensor& tensor);
  bool has_plain_ends(const std::vector<at::Tensor>& inputs) const;
  bool cut(const std::vector<at::Tensor>& inputs);
  bool find_nodes(const std::vector<at::Tensor>& inputs);
  void find_pieces();
  void find_uses();
  void number_pieces();
  int32_t slot_of(size_t piece, const torch::autograd::Edge& edge);

  const Tape& flat_;
  std::shared_ptr<Recorder> recorder_;
  std::vector<Register> registers_;
  std::unordered_map<Register, at::Tensor> outputs_;
  std::unordered_map<Register, uint32_t> versions_;  // of outputs
  Layout layout_;
  bool fits_ = false, has_equal_inputs_ = false;
  std::string why_not_ = "the graph of autograd is not of plain tensors alone";
  std::vector<NodePtr> nodes_;                        // in the order of the engine
  std::unordered_map<const Node*, size_t> piece_of_;  // by node
  std::vector<Boundary> boundary_;
  std::vector<std::vector<torch::autograd::Edge>> slots_, leaving_;  // by piece
};

template <class See>
void EagerGraph::each_saved(See&& see) const {
  const std::unordered_map<Register, Register> flat = flat_registers();
  for (const NodePtr& node : nodes_)
    for (const at::Tensor& tensor : saved_by(node))
      if (const auto known = flat.find(recorder_->find_or_place(tensor)); known != flat.end())
        see(tensor, known->second);
}

}  // namespace gramme::native
