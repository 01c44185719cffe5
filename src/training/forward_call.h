// One forward call of a graph with recorded backward: the state shared by its nodes.
#pragma once
#include <c10/core/TensorImpl.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "training/training.h"

namespace gramme::native {

/// A tensor with the same memory and version counter, without autograd metadata.
at::Tensor without_history(const at::Tensor& tensor);

struct ForwardCall {
  std::shared_ptr<Training> training;
  std::shared_ptr<const ForwardPlan> plan;  // null: the forward ran under autograd
  std::vector<at::Tensor> inputs;           // while formulas need them; else undefined, or data only
  std::vector<at::Tensor> kept;             // by ForwardPlan::kept; may wait to be recomputed
  std::vector<at::Tensor> before;           // former content of inputs that the forward wrote
  at::Tensor random;                        // generator state before it; undefined: it draws nothing
  std::unique_ptr<EagerGraph> graph;        // from the forward, or from running it again
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> shown;  // the program's tensors for Training::shown
  std::vector<c10::VariableVersion> counters;                   // counters of inputs, then of `shown`
  std::vector<uint32_t> versions;                               // their values after the forward
  std::vector<bool> released;                                   // by Training::savers: already freed
  std::recursive_mutex mutex;

  // State of its nodes.

  struct End {
    c10::weak_intrusive_ptr<torch::autograd::Node> node;
    uint32_t slot;
  };
  uint64_t first_number = 0;                                          // first of its sequence numbers (Layout::numbers)
  std::vector<c10::weak_intrusive_ptr<torch::autograd::Node>> nodes;  // node of each piece
  std::vector<End> ends;                                              // by Layout::outputs
  bool grafted = false;                                               // autograd's own nodes took over (graft.h)
  bool heard = false;                                                 // a reducer hears of its gradients (leaves.h)

  // State of the engine's passes over the nodes (leaves.h).

  /// An edge removed from a node for the rest of a pass.
  struct TakenEdge {
    c10::weak_intrusive_ptr<torch::autograd::Node> node;
    size_t index;
    torch::autograd::Edge edge;
  };
  int pass = -1;                // the engine's id of the running pass; -1: none
  bool passes_overlap = false;  // passes have overlapped at some time
  std::vector<TakenEdge> taken;
  std::optional<std::vector<const torch::autograd::Node*>> reached;  // leaves that other nodes of the pass lead to

  /// Call after the forward. `arguments`: the inputs that the program gave to its checkpoint, which notices writes to
  /// them.
  void note(const std::vector<at::Tensor>& given, const std::vector<at::Tensor>& outputs,
            std::span<const size_t> arguments);
  /// Call when a pass of the engine comes to a piece: another pass recomputes again.
  void begin_pass();
  /// Does what autograd's nodes do when the engine calls them for these uses of the piece: checks that saved tensors
  /// are present and unchanged, and frees them unless the graph is kept.
  void come(size_t piece, const std::vector<bool>& wanted, bool keep_graph);
  /// True if `come` raises for no piece: nothing that the program shares was written, and nothing was freed.
  bool is_untouched() const;
  /// True if `come` would raise for these uses of the piece.
  bool would_raise(size_t piece, const std::vector<bool>& wanted) const;
  /// Raises as eager's checkpoint if an argument was written.
  void check_arguments() const;
  /// True if that would raise.
  bool has_written_arguments() const;
  std::vector<torch::autograd::SavedVariable> take_arguments() { return std::move(checked_); }
  /// Takes the graph, without its outputs, for the pass that frees what is left of it; null if it may be needed later.
  std::unique_ptr<EagerGraph> take_last();
  /// Call when the piece will not be called again.
  void leave(size_t piece);
  /// Call when the engine releases what the piece's node saved: drops what is no longer needed.
  void release(size_t piece);
  /// True if all readers of a kept tensor are done.
  bool is_done(size_t kept) const;
  bool is_input(Register r) const { return r < static_cast<Register>(training->flat().inputs.size()); }
  /// True if everything that the tape reads is present, or can be recomputed.
  bool may_run(const BackwardTape& tape) const;
  /// Recomputes what the tape reads, unless it is there.
  void recompute(const BackwardTape& tape);
  /// Runs the forward again under autograd, and restores what formulas saved even if inputs have changed.
  std::unique_ptr<EagerGraph> run_again() const;

 private:
  /// Drops what is no longer needed.
  void drop();
  /// Reduces the input to its data, or drops it wholly.
  void strip(size_t input, bool wholly);
  bool are_released(const std::vector<size_t>& savers) const;
  /// True for an input that is a cast of another one, and is made again where it is needed.
  bool is_cast(size_t input) const { return training->recomputes() && input >= training->flat().given(); }
  /// Such an input, with the edge of the forward's.
  at::Tensor cast_again(size_t input) const;
  /// True if the inputs are needed for recomputing.
  bool waits() const { return training->recomputes() && !recomputed_ && !graph; }
  /// True if the register's memory, shared with the program, was written since the forward.
  bool is_written(Register r) const;
  /// True if the program wrote to what the node saved. What is recomputed is not checked in eager.
  bool is_changed(const Saver& saver) const;
  [[noreturn]] void raise_as_eager(const Saver& saver) const;
  void add_stand_ins(std::vector<at::Tensor>& given) const;
  void restore_saved(const EagerGraph& made) const;

  std::vector<bool> stripped_;                           // by input: fully stripped
  std::vector<bool> finished_;                           // by piece
  std::vector<torch::autograd::SavedVariable> checked_;  // arguments of the checkpoint
  std::vector<torch::autograd::Edge> casts_;             // by is_cast() inputs: edges of the forward's
  bool recomputed_ = false;
  int recomputing_pass_ = -1;
};

/// Base of the nodes for pieces.
struct NodeOfForward : torch::autograd::Node {
  NodeOfForward(std::shared_ptr<ForwardCall> call, size_t index, uint64_t number)
      : Node(number), call(std::move(call)), index(index) {}
  /// Computes all gradients of the piece, and delivers the `quiet` ones to their leaves. False, without effects, if
  /// there is no tape for it.
  virtual bool run_by_tape(torch::autograd::variable_list& gradients, const std::vector<bool>& quiet,
                           torch::autograd::variable_list& found) = 0;
  std::shared_ptr<ForwardCall> call;  // shared by the nodes; refers back to them weakly
  const size_t index;                 // of the piece
};

}  // namespace gramme::native
