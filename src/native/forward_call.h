// One forward of a graph whose backward is recorded, as its nodes know it.
#pragma once
#include <c10/core/TensorImpl.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "native/training.h"

namespace gramme::native {

/// The same memory and version, and nothing of autograd's.
at::Tensor without_history(const at::Tensor& tensor);

struct ForwardCall {
  std::shared_ptr<Training> training;
  std::shared_ptr<const ForwardPlan> plan;  // null: it was made under autograd
  std::vector<at::Tensor> inputs;           // as long as formulas need them; else undefined, or their data alone
  std::vector<at::Tensor> kept;             // by ForwardPlan::kept
  std::vector<at::Tensor> before;           // what inputs that the forward wrote to held before it
  at::Tensor random;                        // the state before it; undefined: it draws nothing
  std::unique_ptr<EagerGraph> graph;        // made by the forward, or to make up for it
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> shown;  // Training::shown, as the program has them
  std::vector<c10::VariableVersion> counters;                   // of inputs, then of what is shown
  std::vector<uint32_t> versions;                               // what they were after the forward
  std::vector<bool> released;                                   // by Training::savers
  std::recursive_mutex mutex;

  // Of its nodes.

  struct End {
    c10::weak_intrusive_ptr<torch::autograd::Node> node;
    uint32_t slot;
  };
  uint64_t first_number = 0;                                          // of Layout::numbers
  std::vector<c10::weak_intrusive_ptr<torch::autograd::Node>> nodes;  // by piece
  std::vector<End> ends;                                              // of Layout::outputs
  bool grafted = false;                                               // graft.h

  // State of the engine's passes over the nodes (leaves.h).

  /// An edge that was taken from a node for the rest of a pass.
  struct TakenEdge {
    c10::weak_intrusive_ptr<torch::autograd::Node> node;
    size_t index;
    torch::autograd::Edge edge;
  };
  int pass = -1;                // the engine's number of the one under way; -1: none
  bool passes_overlap = false;  // or have, once
  std::vector<TakenEdge> taken;
  std::optional<std::vector<const torch::autograd::Node*>> reached;  // leaves that others in it have edges to

  /// After the forward.
  void note(const std::vector<at::Tensor>& given, const std::vector<at::Tensor>& outputs);
  /// What autograd's nodes do that the engine comes to for these uses of the piece: what they saved must be there and
  /// as it was; it is theirs for the last time unless the graph is kept.
  void come(size_t piece, const std::vector<bool>& wanted, bool keep_graph);
  /// Nobody will come to the piece any more.
  void leave(size_t piece);
  /// What nobody needs any more goes.
  void drop();
  /// True if everybody has been there who reads what is kept.
  bool is_done(size_t kept) const;
  bool is_input(Register r) const { return r < static_cast<Register>(training->flat().inputs.size()); }
  /// True if all is there that the tape reads.
  bool may_run(const BackwardTape& tape) const;
  /// Runs the forward again, under autograd. What formulas saved is as it was, whatever inputs hold by now.
  std::unique_ptr<EagerGraph> run_again() const;

 private:
  /// Holds the input's data alone from now on, or nothing of it.
  void strip(size_t input, bool wholly);
  bool are_released(const std::vector<size_t>& savers) const;
  /// True if the memory, which somebody outside knows, was written since the forward.
  bool is_written(Register r) const;
  [[noreturn]] void raise_as_eager(const Saver& saver) const;
  void add_stand_ins(std::vector<at::Tensor>& given) const;
  void restore_saved(const EagerGraph& made) const;

  std::vector<bool> stripped_;  // by input: nothing is left to do
};

/// The nodes that stand for pieces.
struct NodeOfForward : torch::autograd::Node {
  NodeOfForward(std::shared_ptr<ForwardCall> call, uint64_t number) : Node(number), call(std::move(call)) {}
  std::shared_ptr<ForwardCall> call;  // until nobody holds the node: it knows its nodes by weak references
};

}  // namespace gramme::native
