// Which written inputs can be restored. If the graph raises, their content is put back and the frame runs uncompiled
// from the segment's start. After a write that cannot be put back nothing runs twice: the exception leaves the frame.
// Operators with kernels in Python do not run twice either.
#include <algorithm>

#include "aten/classes.h"
#include "base/text.h"
#include "torch/calls.h"
#include "trace/scope.h"

namespace gramme::trace {

using namespace value;

namespace {

/// Whether parameters are saved: tensors that require gradients and are written with grad mode off. An optimizer writes
/// all of them, so they are copied only where the segment would end otherwise.
struct Parameters {
  bool kept = false;
};

/// True if the program would notice that an exception after an irreversible write skips its handlers or loses effects.
/// Without locate(), the failing node is unknown.
bool shows(const Capture& capture) {
  if (!capture.contract.runs) return false;
  return !capture.contract.locates || !capture.effects().empty() || capture.inliner->handles(true);
}

bool needs_gradient(const Tensor* root) { return root->record->requires_grad; }

}  // namespace

/// True if only the tensor's content was changed, in a way that autograd did not record.
bool Scope::can_be_put_back(const Tensor* root) {
  const meta::Record* record = capture_.shapes.simplified(root->record);
  if ((record->requires_grad && aten::grad_enabled()) || record->is_inference) return false;
  if (!record->symbolic) return record == meta::record_of(root->object);
  const auto before = described_.find(root);
  return before != described_.end() && record == capture_.shapes.simplified(before->second);
}

void Scope::refuse_lasting_write() const {
  if (shows(capture_)) cannot(Reason::OperatorMayRaise);
}

/// With fullgraph, such an operator may run twice rather than skip the program's handlers.
void Scope::expect_python(bool writes) {
  const bool done =
      !capture_.contract.functionalizes || (!writes && writes_.empty());  // else the backend may write at its end
  const bool unseen = done && capture_.effects().empty() && !capture_.inliner->handles(true);
  if (!unseen && capture_.contract.breaks) cannot(Reason::OperatorMayRaise);
  repeats_ = repeats_ || !unseen;
}

void Scope::expect_raise() {
  for (const Write& write : writes_) {
    if (!write.content && needs_gradient(write.root))
      state<Parameters>().kept |= shows(capture_);
    else if (!write.content)
      refuse_lasting_write();
  }
  if (reshaped_) refuse_lasting_write();
  restored_ = writes_.size();
  caught_ = caught_ || (capture_.contract.runs && !capture_.contract.locates && capture_.inliner->handles(false));
}

void Scope::expect_write(const meta::Outcome& outcome, const std::vector<Tensor*>& leaves, bool may_raise) {
  for (const meta::Mutation& mutation : outcome.mutations) {
    const bool content = mutation.record == leaves.at(mutation.leaf)->record;
    for (Tensor* root = leaves.at(mutation.leaf); root; root = root->base) {
      if (!root->existing()) continue;
      if (content && can_be_put_back(root)) {
        if ((may_raise || caught_) && needs_gradient(root)) state<Parameters>().kept |= shows(capture_);
        continue;
      }
      if (may_raise) refuse_lasting_write();
      if (caught_) cannot(Reason::OperatorMayRaise);
    }
  }
}

bool Scope::overwrites(const meta::Call& call, const std::vector<Tensor*>& leaves) const {
  if (call.kind != meta::Call::Method || leaves.empty()) return false;
  if (!of_torch::is_call(utf8_of(call.target), of_torch::Overwrites)) return false;
  const Tensor* self = leaves[0];
  return self->existing() && is_of_graph(self->node) && self->node->kind == graph::Node::Placeholder &&
         self->node->uses == 0 && std::count(leaves.begin(), leaves.end(), self) == 1;
}

void Scope::note_input_written(Tensor* tensor, const graph::Node* node, bool overwritten) {
  contents_.forget(tensor);
  for (Tensor* root = tensor; root; root = root->base) {
    if (!root->existing()) continue;
    const bool reshaped = !can_be_put_back(root);
    auto known = std::find_if(writes_.begin(), writes_.end(), [&](const Write& write) { return write.root == root; });
    if (known == writes_.end())
      writes_.push_back({root, node, overwritten, !reshaped && !needs_gradient(root)});
    else
      known->overwritten = false;
    if (reshaped && !reshaped_) reshaped_ = node;
  }
}

std::vector<const Tensor*> Scope::written() const {
  std::vector<const Tensor*> roots;
  for (const Write& write : writes_) roots.push_back(write.root);
  return roots;
}

bool Scope::is_put_back(const Write& write) const {
  return write.content || (needs_gradient(write.root) && state<Parameters>().kept);
}

std::vector<std::pair<Tensor*, bool>> Scope::restored() const {
  std::vector<std::pair<Tensor*, bool>> found;
  for (size_t i = 0; i < restored_; ++i)
    if (is_put_back(writes_[i])) found.emplace_back(writes_[i].root, !is_written_over(writes_[i]));
  return found;
}

/// True if a second run would overwrite the tensor before reading it.
bool Scope::is_written_over(const Write& write) const {
  if (!write.overwritten) return false;
  return std::none_of(inputs_.begin(), inputs_.end(), [&](const auto& input) {
    return input.second != write.root->object && aten::is_tensor(input.second) &&
           aten::overlap(input.second, write.root->object);
  });
}

const graph::Node* Scope::lasting() const {
  const graph::Node* first = reshaped_;
  if (entered_ && !repeats_ && (!first || entered_->id < first->id)) first = entered_;
  for (size_t i = 0; i < writes_.size(); ++i) {
    const Write& write = writes_[i];
    const bool lasts = !is_put_back(write) || (i >= restored_ && !is_written_over(write));
    if (lasts && (!first || write.node->id < first->id)) first = write.node;
  }
  return first;
}

}  // namespace gramme::trace
