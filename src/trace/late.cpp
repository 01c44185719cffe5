// Restrictions on tensors that replay changes after the graph ran.
#include <utility>

#include "aten/classes.h"
#include "trace/scope.h"

namespace gramme::trace {

using namespace value;
using effects::Late;

void Scope::found(Tensor* tensor) {
  if (!aten::is_exact_tensor_type(tensor->record->type)) note_class(tensor->record->type);
  writes_.refuse_found(tensor);
  has_leaf_views_ |= tensor->leaf_view;
  inputs_.describe(tensor);
  if (tensor->node) return;
  // Placeholders come in the order in which inputs are looked into; unused ones are dropped. Bodies take what they use.
  graph::Graph* now = std::exchange(graph_, &root_);
  node(tensor);
  graph_ = now;
}

void Scope::fix(Tensor* tensor, const char* effect) {
  capture_.confinement.changes(tensor);
  tensor->altered = true;
  if (is_leaf_view(tensor)) cannot(Reason::LateEffect, std::string(effect) + " on a view made with grad mode off");
  if (tensor->used && tensor->made_at) {
    capture_.progress.stop_at(tensor->made_at, Reason::LateEffect, std::string(effect) + " on a tensor that was used");
  }
  // Uses of an input come after its hook under every backend. A value computed in the graph must first leave it.
  const bool input = tensor->existing() && !tensor->made_at;
  writes_.set_late(tensor, input && writes_.late(tensor) != Late::Closed ? Late::Fixed : Late::Closed);
}

void Scope::toggle(Tensor* tensor) {
  refuse_twin(tensor, "requires_grad");
  if (tensor->existing()) writes_.note_toggled(tensor);
  close(tensor);
}

void Scope::close(Tensor* tensor) {
  refuse_twin(tensor, "what it is to autograd");
  capture_.confinement.changes(tensor);
  tensor->altered = true;
  if (is_leaf_view(tensor)) cannot(Reason::LateEffect, "a change of a view made with grad mode off");
  writes_.set_late(tensor, Late::Closed);
}

}  // namespace gramme::trace
