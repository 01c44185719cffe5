// A write in place as the capture sees it: what it ends, and what it tells the ledger (effects/write_ledger.h).
#include <algorithm>
#include <utility>

#include "base/text.h"
#include "torch/calls.h"
#include "trace/bodies.h"
#include "trace/scope.h"

namespace gramme::trace {

using namespace value;

effects::Raising Scope::raising() const {
  const Contract& contract = capture_.contract;
  return {contract.runs,
          contract.locates,
          contract.functionalizes,
          contract.breaks,
          !capture_.effects().empty(),
          [this](bool with) { return capture_.inliner->handles(with); }};
}

effects::WriteLedger::Restorable Scope::restorable() const {
  return [this](const Tensor* root) {
    const meta::Record* record = capture_.shapes.simplified(root->record);
    if ((record->requires_grad && aten::grad_enabled()) || record->is_inference) return false;
    if (!record->symbolic) return record == meta::record_of(root->object);
    const meta::Record* before = inputs_.described(root);
    return before && record == capture_.shapes.simplified(before);
  };
}

void Scope::expect_raise() { writes_.expect_raise(raising()); }

bool Scope::overwrites(const meta::Call& call, const std::vector<Tensor*>& leaves) const {
  if (call.kind != meta::Call::Method || leaves.empty()) return false;
  if (!of_torch::is_call(utf8_of(call.target), of_torch::Overwrites)) return false;
  const Tensor* self = leaves[0];
  return self->existing() && is_of_graph(self->node) && self->node->kind == graph::Node::Placeholder &&
         self->node->uses == 0 && std::count(leaves.begin(), leaves.end(), self) == 1;
}

namespace {

/// Ends the segment at a write to a tensor of TakenByBodies. A body keeps nothing if none of its tensors requires a
/// gradient.
void refuse_taken(Progress& progress, const std::vector<TakenByBodies::Taken>& taken, const graph::Graph& now,
                  const Tensor* written) {
  for (const auto& [tensor, body, step] : taken) {
    if ((body && now.is_in(body)) || !effects::shares_memory(tensor, written)) continue;
    const auto differentiates = [&, of = body](const TakenByBodies::Taken& other) {
      return other.body == of && other.tensor->record->requires_grad;
    };
    if (std::ranges::any_of(taken, differentiates))
      progress.stop_at(step - 1, Reason::LateEffect,
                       "a write to a tensor that a higher-order operator keeps for backward");
  }
}

}  // namespace

void Scope::note_written(Tensor* tensor, const meta::Record* before) {
  refuse_taken(capture_.progress, state<TakenByBodies>().tensors, *graph_, tensor);
  writes_.refuse_write(tensor, before);
  for (Tensor* t = tensor; t; t = t->base) capture_.confinement.writes(t);
  writes_.note_memory(tensor, before, capture_.steps());
  const Tensor* gained = writes_.note_gain(tensor, before);
  if (!gained) return;
  capture_.objects.each([&](Value* value) {
    auto* other = as<Tensor>(value);
    if (other && other != gained && other->existing() && aten::same_storage(other->object, gained->object))
      cannot(Reason::MutationUnsupported, "a write that makes several inputs need a gradient");
  });
}

void Scope::note_input_written(Tensor* tensor, const graph::Node* node, bool overwritten) {
  contents_.forget(tensor);
  writes_.note_input(tensor, node, overwritten, restorable());
}

void Scope::rebase(Tensor* tensor, const meta::Record* record, graph::Node* node) {
  const meta::Record* before = std::exchange(tensor->record, record);
  tensor->node = node;
  note_written(tensor, before);
  note_input_written(tensor, node, false);
}

}  // namespace gramme::trace
