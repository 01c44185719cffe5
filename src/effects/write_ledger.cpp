// What writes in place mean: for the tensors that share the memory, and if the graph raises. Then the content of
// written inputs is put back and the frame runs uncompiled from the segment's start. After a write that cannot be put
// back nothing runs twice: the exception leaves the frame. Operators with kernels in Python do not run twice either.
#include "effects/write_ledger.h"

#include <algorithm>

#include "aten/classes.h"
#include "base/error.h"
#include "value/views.h"

namespace gramme::effects {

using value::Tensor;

namespace {

bool needs_gradient(const Tensor* root) { return root->record->requires_grad; }

void refuse_lasting(const Raising& raising) {
  if (raising.shows()) cannot(Reason::OperatorMayRaise);
}

/// Updates the records of all differentiable views: they require a gradient since the write. The written one has its
/// record already.
void gain(Tensor* tensor, const Tensor* written, const meta::Record* before) {
  if (tensor != written) tensor->record = meta::gained(tensor->record, before, written->record);
  for (Tensor* view : tensor->views) gain(view, written, before);
}

}  // namespace

bool shares_memory(const Tensor* a, const Tensor* b) {
  const Tensor *x = storage_root(a), *y = storage_root(b);
  return x == y || (x->existing() && y->existing() && aten::overlap(x->object, y->object));
}

// ---- before an operation

void WriteLedger::expect_raise(const Raising& raising) {
  for (const Write& write : writes_) {
    if (!write.content && needs_gradient(write.root))
      keeps_parameters_ |= raising.shows();
    else if (!write.content)
      refuse_lasting(raising);
  }
  if (reshaped_) refuse_lasting(raising);
  restored_ = writes_.size();
  caught_ = caught_ || (raising.runs && !raising.locates && raising.handles(false));
}

void WriteLedger::expect_write(const meta::Outcome& outcome, const std::vector<Tensor*>& leaves, bool may_raise,
                               const Raising& raising, const Restorable& restorable) {
  for (const meta::Mutation& mutation : outcome.mutations) {
    const bool content = mutation.record == leaves.at(mutation.leaf)->record;
    for (Tensor* root = leaves.at(mutation.leaf); root; root = root->base) {
      if (!root->existing()) continue;
      if (content && restorable(root)) {
        if ((may_raise || caught_) && needs_gradient(root)) keeps_parameters_ |= raising.shows();
        continue;
      }
      if (may_raise) refuse_lasting(raising);
      if (caught_) cannot(Reason::OperatorMayRaise);
    }
  }
}

void WriteLedger::expect_python(bool writes, const Raising& raising) {
  const bool done = !raising.functionalizes || (!writes && writes_.empty());  // else the backend may write at its end
  const bool unseen = done && !raising.after_effects && !raising.handles(true);
  if (!unseen && raising.breaks) cannot(Reason::OperatorMayRaise);
  repeats_ = repeats_ || !unseen;
}

bool WriteLedger::may_assert(bool locates) {
  if (reshaped_ || (entered_ && !repeats_)) return false;
  if (std::ranges::any_of(writes_, [](const Write& write) { return !write.content; })) return false;
  caught_ = caught_ || !locates;
  return true;
}

void WriteLedger::refuse_write(const Tensor* tensor, const meta::Record* before) const {
  if (tensor->written && tensor->record->sizes != before->sizes)
    cannot(Reason::LateEffect, "a change of the shape of a tensor whose attributes were set");
  for (const auto& [late, how] : late_)
    if (shares_memory(late, tensor)) cannot(Reason::LateEffect, "a write to a tensor");
}

// ---- an operation and its writes

void WriteLedger::note_memory(Tensor* tensor, const meta::Record* before, size_t step) {
  tensor->altered |= tensor->record != before;
  tensor->used = false;
  for (Tensor* t = tensor; t; t = t->base) {
    t->made_at = step;
    inputs_written_ |= t->existing();
    if (!t->base) memory_.insert(t);
  }
}

Tensor* WriteLedger::note_gain(Tensor* tensor, const meta::Record* before) {
  if (!meta::gains(before, tensor->record)) return nullptr;
  Tensor* root = tensor;
  while (root->base && root->differentiable) root = root->base;
  const meta::Record* kept = root->record;
  gain(root, tensor, before);
  if (!root->existing() || (root != tensor && root->record == kept)) return nullptr;
  gained_.push_back(root);
  return root;
}

void WriteLedger::note_input(Tensor* tensor, const graph::Node* node, bool overwritten, const Restorable& restorable) {
  for (Tensor* root = tensor; root; root = root->base) {
    if (!root->existing()) continue;
    const bool reshaped = !restorable(root);
    const auto known = std::ranges::find(writes_, root, &Write::root);
    if (known == writes_.end())
      writes_.push_back({root, node, overwritten, !reshaped && !needs_gradient(root)});
    else
      known->overwritten = false;
    if (reshaped && !reshaped_) reshaped_ = node;
  }
}

void WriteLedger::note_around(const Tensor* tensor, graph::Graph* graph) {
  tensor = storage_root(tensor);
  const auto is_of = [&](const graph::Graph* body) { return tensor->node && tensor->node->graph->is_in(body); };
  for (; graph->around() && !is_of(graph); graph = graph->around()) graph->writes_around = true;
}

void WriteLedger::settle(const graph::Node* caller, const graph::Graph* body) {
  const auto settle = [&](const graph::Node*& node) {
    if (node && node->graph == body) node = caller;
  };
  for (Write& write : writes_) settle(write.node);
  settle(reshaped_);
  settle(entered_);
}

// ---- questions

void WriteLedger::refuse_found(const Tensor* found) const {
  for (const Tensor* gained : gained_)
    if (aten::same_storage(found->object, gained->object))
      cannot(Reason::MutationUnsupported, "a tensor that shares memory with one that was written and needs a gradient");
  for (const Tensor* toggled : toggled_)
    if (aten::overlap(found->object, toggled->object))
      cannot(Reason::MutationUnsupported, "a tensor that shares memory with one whose requires_grad was set");
}

std::vector<const Tensor*> WriteLedger::inputs() const {
  std::vector<const Tensor*> roots;
  for (const Write& write : writes_) roots.push_back(write.root);
  return roots;
}

bool WriteLedger::is_by(const graph::Node* node) const {
  return std::ranges::find(writes_, node, &Write::node) != writes_.end();
}

bool WriteLedger::is_written(const Tensor* input) const {
  return std::ranges::any_of(writes_,
                             [&](const Write& write) { return aten::overlap(write.root->object, input->object); });
}

bool WriteLedger::is_written_around(const Tensor* tensor) const {
  tensor = storage_root(tensor);
  return memory_.contains(tensor) || (tensor->existing() && std::ranges::any_of(writes_, [&](const Write& write) {
                                        return aten::same_storage(write.root->object, tensor->object);
                                      }));
}

bool WriteLedger::is_put_back(const Write& write) const {
  return write.content || (needs_gradient(write.root) && keeps_parameters_);
}

bool WriteLedger::is_written_over(const Write& write, const Inputs& inputs) {
  if (!write.overwritten) return false;
  return std::ranges::none_of(inputs, [&](const auto& input) {
    return input.second != write.root->object && aten::is_tensor(input.second) &&
           aten::overlap(input.second, write.root->object);
  });
}

std::vector<std::pair<Tensor*, bool>> WriteLedger::restored(const Inputs& inputs) const {
  std::vector<std::pair<Tensor*, bool>> found;
  for (size_t i = 0; i < restored_; ++i)
    if (is_put_back(writes_[i])) found.emplace_back(writes_[i].root, !is_written_over(writes_[i], inputs));
  return found;
}

const graph::Node* WriteLedger::lasting(const Inputs& inputs) const {
  const graph::Node* first = reshaped_;
  if (entered_ && !repeats_ && (!first || entered_->id < first->id)) first = entered_;
  for (size_t i = 0; i < writes_.size(); ++i) {
    const Write& write = writes_[i];
    const bool lasts = !is_put_back(write) || (i >= restored_ && !is_written_over(write, inputs));
    if (lasts && (!first || write.node->id < first->id)) first = write.node;
  }
  return first;
}

}  // namespace gramme::effects
