// Restrictions on tensors that replay changes after the graph ran, and the consequences of a write for tensors that
// share memory.
#include <algorithm>
#include <utility>

#include "aten/classes.h"
#include "trace/bodies.h"
#include "trace/scope.h"
#include "value/views.h"

namespace gramme::trace {

using namespace value;

namespace {

bool shares_memory(Tensor* a, Tensor* b) {
  Tensor *x = storage_root(a), *y = storage_root(b);
  return x == y || (x->existing() && y->existing() && aten::overlap(x->object, y->object));
}

/// Updates the records of all differentiable views: they require a gradient since the write. The written one has its
/// record already.
void gain(Tensor* tensor, const Tensor* written, const meta::Record* before) {
  if (tensor != written) tensor->record = meta::gained(tensor->record, before, written->record);
  for (Tensor* view : tensor->views) gain(view, written, before);
}

}  // namespace

void Scope::found(Tensor* tensor) {
  if (!aten::is_exact_tensor_type(tensor->record->type)) note_class(tensor->record->type);
  for (Tensor* gained : gained_)
    if (aten::same_storage(tensor->object, gained->object))
      cannot(Reason::MutationUnsupported, "a tensor that shares memory with one that was written and needs a gradient");
  for (Tensor* toggled : toggled_)
    if (aten::overlap(tensor->object, toggled->object))
      cannot(Reason::MutationUnsupported, "a tensor that shares memory with one whose requires_grad was set");
  has_leaf_views_ |= tensor->leaf_view;
  if (tensor->record->symbolic) described_[tensor] = tensor->record;
  if (tensor->node) return;
  // Placeholders come in the order in which inputs are looked into; unused ones are dropped. Bodies take what they use.
  graph::Graph* now = std::exchange(graph_, &root_);
  node(tensor);
  graph_ = now;
}

void Scope::fix(Tensor* tensor, const char* effect) {
  capture_.changes(tensor);
  tensor->altered = true;
  if (is_leaf_view(tensor)) cannot(Reason::LateEffect, std::string(effect) + " on a view made with grad mode off");
  if (tensor->used && tensor->made_at) {
    capture_.stop_at(tensor->made_at, Reason::LateEffect, std::string(effect) + " on a tensor that was used");
  }
  // Uses of an input come after its hook under every backend. A value computed in the graph must first leave it.
  bool input = tensor->existing() && !tensor->made_at;
  if (tensor->late == Tensor::Free) late_.push_back(tensor);
  tensor->late = input && tensor->late != Tensor::Closed ? Tensor::Fixed : Tensor::Closed;
}

void Scope::toggle(Tensor* tensor) {
  refuse_twin(tensor, "requires_grad");
  if (tensor->existing()) toggled_.push_back(tensor);
  close(tensor);
}

void Scope::hold(Tensor* tensor) {
  late_.push_back(tensor);
  tensor->late = Tensor::Fixed;
}

void Scope::close(Tensor* tensor) {
  refuse_twin(tensor, "what it is to autograd");
  capture_.changes(tensor);
  tensor->altered = true;
  if (is_leaf_view(tensor)) cannot(Reason::LateEffect, "a change of a view made with grad mode off");
  if (tensor->late == Tensor::Free) late_.push_back(tensor);
  tensor->late = Tensor::Closed;
}

namespace {

/// Ends the segment at a write to a tensor of TakenByBodies. A body keeps nothing if none of its tensors requires a
/// gradient.
void refuse_taken(Capture& capture, Scope& scope, Tensor* written) {
  const auto& taken = scope.state<TakenByBodies>().tensors;
  for (const auto& [tensor, body, step] : taken) {
    if ((body && scope.graph().is_in(body)) || !shares_memory(tensor, written)) continue;
    const auto differentiates = [&, of = body](const TakenByBodies::Taken& other) {
      return other.body == of && other.tensor->record->requires_grad;
    };
    if (std::ranges::any_of(taken, differentiates))
      capture.stop_at(step - 1, Reason::LateEffect,
                      "a write to a tensor that a higher-order operator keeps for backward");
  }
}

}  // namespace

void Scope::note_written(Tensor* tensor, const meta::Record* before) {
  refuse_taken(capture_, *this, tensor);
  tensor->altered |= tensor->record != before;
  if (tensor->written && tensor->record->sizes != before->sizes)
    cannot(Reason::LateEffect, "a change of the shape of a tensor whose attributes were set");
  for (Tensor* late : late_)
    if (shares_memory(late, tensor)) cannot(Reason::LateEffect, "a write to a tensor");
  size_t now = capture_.steps();
  tensor->used = false;
  for (Tensor* t = tensor; t; t = t->base) {
    capture_.writes(t);
    t->made_at = now;
    if (t->existing()) inputs_written_ = true;
    t->memory_written |= !t->base;
  }
  if (!meta::gains(before, tensor->record)) return;
  Tensor* root = tensor;
  while (root->base && root->differentiable) root = root->base;
  const meta::Record* kept = root->record;
  gain(root, tensor, before);
  if (!root->existing() || (root != tensor && root->record == kept)) return;
  capture_.each_known([&](Value* value) {
    auto* other = as<Tensor>(value);
    if (other && other != root && other->existing() && aten::same_storage(other->object, root->object))
      cannot(Reason::MutationUnsupported, "a write that makes several inputs need a gradient");
  });
  gained_.push_back(root);
}

void Scope::keep_unwritten(Tensor* tensor) {
  if (tensor->late != Tensor::Free) return;
  late_.push_back(tensor);
  tensor->late = Tensor::Fixed;
}

void Scope::rebase(Tensor* tensor, const meta::Record* record, graph::Node* node) {
  const meta::Record* before = std::exchange(tensor->record, record);
  tensor->node = node;
  note_written(tensor, before);
  note_input_written(tensor, node, false);
}

}  // namespace gramme::trace
