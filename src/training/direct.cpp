// Checks that nobody sees the engine's part in a backward, and runs the pieces one after another.
#include "training/direct.h"

#include <ATen/ops/ones_like.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <atomic>
#include <limits>

#include "base/process.h"
#include "tape/invoke.h"
#include "training/backward_node.h"
#include "training/leaves.h"

namespace gramme::native {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::variable_list;

bool is_hooked(Node& node) {
  return !node.pre_hooks().empty() || !node.post_hooks().empty() || !node.tensor_pre_hooks().empty() ||
         !node.retains_grad_hooks().empty();
}

struct State {
  std::atomic<uint64_t> passes = 0;  // atomic: those that began here
};
Lasting<State> state;

/// The pieces of one call that a gradient of an output reaches.
class DirectPass {
 public:
  explicit DirectPass(std::shared_ptr<ForwardCall> call)
      : call_(std::move(call)), pieces_(call_->training->layout().pieces), given_(pieces_.size()) {}
  /// False where the engine would do something that the program, or a kernel, notices.
  bool begin(size_t piece, size_t slot);
  /// Runs; false, without effects, if the first piece has no tape.
  bool run(at::Tensor gradient);

 private:
  struct Reached {
    c10::intrusive_ptr<Node> node;
    std::vector<bool> quiet;
    NodeOfForward& operator*() const { return static_cast<NodeOfForward&>(*node); }
  };
  bool may_begin() const;
  bool reach(size_t piece);
  void run_by_engine(size_t from);

  const std::shared_ptr<ForwardCall> call_;
  const std::vector<Piece>& pieces_;
  std::vector<variable_list> given_;  // by piece: gradients by slot; empty: not reached
  std::vector<Reached> reached_;      // by piece
  size_t first_ = 0, slot_ = 0;
};

/// Marks the call's nodes as being in a pass, for other threads.
class PassMark {
 public:
  explicit PassMark(ForwardCall& call) : call_(call) { set(std::numeric_limits<int>::max()); }
  ~PassMark() { set(-1); }
  PassMark(const PassMark&) = delete;

 private:
  void set(int pass) {
    std::lock_guard<std::recursive_mutex> lock(call_.mutex);
    call_.pass = pass;
  }
  ForwardCall& call_;
};

bool DirectPass::may_begin() const {
  return !call_->grafted && call_->pass < 0 && !call_->passes_overlap && !call_->heard &&
         !call_->training->recomputes() && call_->is_untouched() && unwatched() &&
         std::ranges::none_of(
             call_->ends,
             [](const ForwardCall::End& end) {
               const c10::intrusive_ptr<Node> node = end.node.lock();
               return node && is_hooked(*node);
             });
}

bool DirectPass::begin(size_t piece, size_t slot) {
  std::lock_guard<std::recursive_mutex> lock(call_->mutex);
  first_ = piece;
  slot_ = slot;
  reached_.resize(pieces_.size());
  given_[piece].resize(pieces_[piece].slots.size());
  if (!may_begin()) return false;
  std::vector<std::vector<bool>> taken(pieces_.size());  // by piece, by slot: a gradient comes to it
  for (size_t p = 0; p < pieces_.size(); ++p) taken[p].resize(pieces_[p].slots.size());
  taken[piece][slot] = true;
  for (size_t p = piece; p < pieces_.size(); ++p) {
    if (given_[p].empty()) continue;
    if (!reach(p)) return false;
    for (const Use& use : pieces_[p].uses) {
      if (use.piece < 0) continue;
      const auto to = static_cast<size_t>(use.piece), at = static_cast<size_t>(use.slot);
      if (taken[to][at]) return false;  // the engine sums gradients in its own way
      taken[to][at] = true;
      given_[to].resize(pieces_[to].slots.size());
    }
  }
  return true;
}

/// False if a gradient leaves the piece for anything but a leaf, or another piece.
bool DirectPass::reach(size_t piece) {
  Reached& reached = reached_[piece];
  reached.node = call_->nodes[piece].lock();
  if (!reached.node || is_hooked(*reached.node)) return false;
  std::vector<const Node*> leaves;
  reached.quiet = edges_to_leaves(*reached, piece, leaves);
  const std::vector<Use>& uses = pieces_[piece].uses;
  if (reached.quiet.empty()) reached.quiet.resize(uses.size());
  for (size_t i = 0; i < uses.size(); ++i)
    if (!reached.quiet[i] && uses[i].piece < 0) return false;
  return true;
}

bool DirectPass::run(at::Tensor gradient) {
  std::optional<PassMark> mark(*call_);
  given_[first_][slot_] = std::move(gradient);
  for (size_t p = first_; p < pieces_.size(); ++p) {
    if (given_[p].empty()) continue;
    if (std::ranges::none_of(given_[p], [](const at::Tensor& gradient) { return gradient.defined(); })) {
      call_->come(p, std::vector<bool>(reached_[p].quiet.size(), true), false);
      reached_[p].node->release_variables();
      continue;
    }
    variable_list found;
    if (!(*reached_[p]).run_by_tape(given_[p], reached_[p].quiet, found)) {
      mark.reset();
      if (p == first_) return false;
      return run_by_engine(p), true;
    }
    if (p == first_) ++state->passes;
    reached_[p].node->release_variables();
    for (size_t i = 0; i < found.size(); ++i)
      if (const Use& use = pieces_[p].uses[i]; use.piece >= 0)
        given_[static_cast<size_t>(use.piece)][static_cast<size_t>(use.slot)] = std::move(found[i]);
  }
  return true;
}

/// The rest, from this piece on.
void DirectPass::run_by_engine(size_t from) {
  edge_list roots;
  variable_list gradients;
  for (size_t p = from; p < pieces_.size(); ++p)
    for (size_t slot = 0; slot < given_[p].size(); ++slot)
      if (given_[p][slot].defined()) {
        roots.emplace_back(reached_[p].node, static_cast<uint32_t>(slot));
        gradients.push_back(std::move(given_[p][slot]));
      }
  torch::autograd::Engine::get_default_engine().execute(roots, gradients, false, false, true);
}

}  // namespace

uint64_t direct_backwards() { return state->passes; }

bool run_directly(const at::Tensor& output) {
  if (torch::autograd::get_current_graph_task_id() >= 0) return false;
  const Edge made = torch::autograd::impl::gradient_edge(output);
  if (!is_of_forward(*made.function)) return false;
  const bool is_entry = !dynamic_cast<NodeOfForward*>(made.function.get());
  const Edge entered = is_entry ? made.function->next_edge(made.input_nr) : made;
  const auto& node = static_cast<const NodeOfForward&>(*entered.function);
  if (!node.call) return false;
  const c10::AutoGradMode off(false);
  DirectPass pass(node.call);
  return pass.begin(node.index, entered.input_nr) && pass.run(at::ones_like(output, {}, at::MemoryFormat::Preserve));
}

}  // namespace gramme::native
