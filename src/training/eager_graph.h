// Autograd's own graph of one call, from running the flat tape under autograd as eager would, cut into pieces.
//
// A piece is a run of nodes, in the engine's order, that are reachable from the same outputs. So the engine reaches a
// place where the program may have hooks exactly if it would in autograd's graph. A piece also begins at each node
// whose result is both an output and read inside: its gradient must be complete, and the program's hooks must have run,
// before the node runs. Every use has its own edge out of a piece, so that gradients of one tensor are summed in the
// engine's order, and with its bits.
#pragma once
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/input_metadata.h>
#include <torch/csrc/autograd/node.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "record/recorder.h"
#include "record/saved.h"
#include "tape/tape.h"

namespace gramme::native {

/// Where a gradient enters a piece.
struct Slot {
  Register output = kNone;  // output register of the flat tape; kNone: from earlier pieces
  torch::autograd::InputMetadata metadata;
  size_t node = 0;   // the node that makes the output, in the engine's order
  std::string name;  // that node's name
};

/// Where a gradient leaves: to an input of the tape, or to a slot of a later piece.
struct Use {
  int32_t input = -1, piece = -1, slot = -1;
  size_t node = 0;  // the node that it leaves, in the engine's order
  bool operator==(const Use&) const = default;
};

struct Piece {
  size_t nodes = 0;
  uint64_t number = 0;  // sequence number of the piece's node: above its nodes', below its outputs'
  std::vector<Slot> slots;
  std::vector<Use> uses;  // in the engine's order of delivery
};

/// An autograd node that saved tensors, which must be present and unchanged whenever the engine calls it.
struct Saver {
  size_t piece, node;           // in the engine's order
  std::vector<Register> saved;  // saved registers of the flat tape, where known
  std::vector<bool> leads;      // by use of the piece: whether it leads there
};

/// The part of the graph that is equal in all calls of one tape.
struct Layout {
  std::vector<Piece> pieces;  // in the order of the engine
  std::vector<Register> outputs;
  uint64_t numbers = 0;  // sequence numbers used; the engine runs the highest first
  bool matches(const Layout& other) const;
};

/// A node placed on an edge, which passes gradients on.
class Exit final : public torch::autograd::Node {
 public:
  explicit Exit(const torch::autograd::Edge& to);
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    return std::move(gradients);
  }
};

/// What a pass does with autograd's nodes.
enum class Pass : uint8_t {
  Frees,           // each node frees what it saved when it is done
  Keeps,           // for further passes
  Differentiates,  // keeps, and makes a graph of the gradients
};

class EagerGraph {
 public:
  /// Runs the tape under autograd. On an exception `*at` is the instruction that threw.
  EagerGraph(const Tape& flat, const std::vector<at::Tensor>& inputs, size_t* at);
  EagerGraph(const EagerGraph&) = delete;

  /// True if the graph was cut into pieces. Otherwise it is as eager would have left it.
  bool fits() const { return fits_; }
  /// True if two inputs are the same tensor or share a gradient, so that the gradient's input is ambiguous.
  bool has_equal_inputs() const { return has_equal_inputs_; }
  /// Why it was not cut.
  const std::string& why_not() const { return why_not_; }
  const Layout& layout() const { return layout_; }
  /// An output by its register in the flat tape.
  at::Tensor& output(Register r) { return outputs_.at(r); }

  /// Call when no output is asked for any more: formulas keep what they saved.
  void forget_outputs() { outputs_.clear(); }

  /// The version that the output has in eager, counting writes that the tape replaced.
  uint32_t version(Register r) const { return versions_.at(r); }

  /// Runs a piece by the engine. Returns gradients by use; those not in `wanted` stay undefined.
  torch::autograd::variable_list run(size_t piece, const torch::autograd::variable_list& gradients,
                                     const std::vector<bool>& wanted, Pass pass) const;

  /// The saving nodes, in the engine's order. Raises if a formula would.
  std::vector<Saver> savers() const;
  /// Calls `see(saved tensor, flat register)` for saved tensors that correspond to registers.
  template <class See>
  void each_saved(See&& see) const;
  /// All nodes, in the engine's order.
  const std::vector<c10::intrusive_ptr<torch::autograd::Node>>& nodes() const { return nodes_; }
  /// By slot of a piece: the edge on which its gradient continues.
  const std::vector<torch::autograd::Edge>& slots(size_t piece) const { return slots_[piece]; }
  /// Reconnects the cut graph: gradients continue along `edges` (by piece and use).
  void join(const std::vector<torch::autograd::edge_list>& edges);
  /// Undoes the cut. `inputs`: their edges.
  void rejoin(const std::vector<torch::autograd::Edge>& inputs);

  const std::shared_ptr<Recorder>& recorder() const { return recorder_; }
  /// The recorder's registers, by register of the flat tape.
  const std::vector<Register>& registers() const { return registers_; }
  /// The flat tape's registers, by the recorder's. Without constants.
  std::unordered_map<Register, Register> flat_registers() const;

 private:
  using Node = torch::autograd::Node;
  using NodePtr = c10::intrusive_ptr<Node>;
  using Boundary = std::pair<torch::autograd::Edge, int32_t>;  // the edge of an input, and its index

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
  std::unordered_map<Register, uint32_t> versions_;  // versions of outputs
  Layout layout_;
  bool fits_ = false, has_equal_inputs_ = false;
  std::string why_not_ = "the graph of autograd is not of plain tensors alone";
  std::vector<NodePtr> nodes_;                        // in the order of the engine
  std::unordered_map<const Node*, size_t> piece_of_;  // piece of each node
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
