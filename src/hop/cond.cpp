// torch.cond: a tensor or a condition on sizes decides which of two functions runs.
#include "hop/body.h"
#include "hop/outputs.h"

namespace gramme::hop {

using namespace value;
using meta::Argument;

namespace {

/// Called eagerly it takes only tensors as operands; PyTorch's front end also accepts numbers.
void check_operands(Trace& trace, const Row& row, Value* operands) {
  for (Value* leaf : Tree(trace, operands).leaves) {
    auto* known = as<Constant>(leaf);
    const bool number = leaf->kind == Kind::Number || (known && PyLong_Check(known->object));
    if (!number && leaf->kind != Kind::Tensor) cannot(Reason::ArgumentKind, row.name);
  }
}

/// The condition if it is undecided at capture and an export keeps both functions; else null.
const Number* stays_open(Trace& trace, Value* pred) {
  auto* number = trace.contract.runs ? nullptr : as<Number>(pred);
  if (!number || number->type != &PyBool_Type) return nullptr;
  const bool open = number->expr ? !trace.shapes.assumptions.decide(number->expr) : trace.scope().is_data(number);
  return open ? number : nullptr;
}

/// The decision for a condition without a tensor, which is like an if.
bool chooses(Trace& trace, const Row& row, Value* pred) {
  auto* known = trace.see_as<Constant>(pred);
  const bool number = known && (PyLong_Check(known->object) || PyFloat_Check(known->object));
  if (!number && trace.see(pred)->kind != Kind::Number) cannot(Reason::ArgumentKind, row.name);
  return protocol::truth(trace, pred);
}

struct Branch {
  graph::Graph* graph;
  Outputs outputs;
};

/// Traces a function that may neither change objects from outside nor return them.
Branch trace_branch(Trace& trace, const char* prefix, const Row& row, Value* function,
                    const std::vector<Value*>& operands) {
  Body body(trace, row, prefix);
  body.forbid_writes();
  Outputs outputs(trace, body, body.call(function, {operands.data(), operands.size(), nullptr, 0}));
  body.leave();
  return {body.graph(), std::move(outputs)};
}

/// Refuses transforms that differentiate: their gradients depend on everything computed inside, bodies included.
void refuse_transforms(Trace& trace, const Tensor* decides) {
  for (const meta::Level& level : trace.scope().modes().levels())
    if (level.kind != meta::Level::Vmap || !decides)
      cannot(Reason::BodyUnsupported, "torch.cond inside a transform for gradients");
}

/// Inside torch.vmap: if the condition differs between items of the batch, both functions run and torch.where chooses.
/// PyTorch's rule for that returns a single tensor and needs an input.
void choose_in_batch(Trace& trace, const Row& row, const Tensor* decides, const std::vector<Argument>& inputs,
                     Merged& merged) {
  const bool one = !inputs.empty() && merged.left.size() == 1 && merged.tensors.size() == 1;
  if (!one) cannot(Reason::BodyUnsupported, "torch.cond inside torch.vmap, of anything but one tensor");
  if (!meta::is_batched(*decides->record)) return;
  Argument condition;
  condition.kind = Argument::Tensor;
  condition.node = decides->node;  // tensors are compared by node
  condition.record = decides->record;
  Tensor* result = merged.tensors[0];
  result->record = would_give(trace, row, result->record, "where", {condition, merged.right[0]});
}

}  // namespace

Value* cond(Trace& trace, const Row& row, PyObject* op, const Args& args) {
  auto [pred, yes, no, given] = bind<4>(row, args, {"pred", "true_fn", "false_fn", "operands"});
  const std::vector<Value*> operands = items_in(trace, row, given);
  auto* tensor = trace.see_as<Tensor>(pred);
  if (!tensor && !stays_open(trace, trace.see(pred)))
    return protocol::call(trace, chooses(trace, row, pred) ? yes : no, {operands.data(), operands.size(), nullptr, 0});
  check_operands(trace, row, given);
  refuse_transforms(trace, tensor);
  if (tensor && (tensor->record->symbolic || tensor->record->opaque || meta::numel(*tensor->record) != 1))
    cannot(Reason::BodyUnsupported, "torch.cond of a tensor that is not one value");
  const Argument decides = trace.scope().argument(trace.see(pred));
  const Branch left = trace_branch(trace, row.prefix, row, yes, operands);
  const Branch right = trace_branch(trace, "cond_false", row, no, operands);
  Merged merged = merge(trace, left.outputs, right.outputs);
  left.graph->returns(trace.scope().sequence_of(Argument::Tuple, merged.left));
  right.graph->returns(trace.scope().sequence_of(Argument::Tuple, merged.right));
  trace.scope().graph().merge_inputs(*left.graph, "_true_branch", *right.graph, "_false_branch");
  const std::vector<Argument> inputs = lifted(*left.graph);
  if (tensor && trace.scope().modes().in_level()) choose_in_batch(trace, row, tensor, inputs, merged);
  refuse_other_gradients(trace, inputs, merged.tensors);
  const std::vector<Argument> arguments = {decides, trace.scope().body(left.graph), trace.scope().body(right.graph),
                                           trace.scope().sequence_of(Argument::Tuple, inputs)};
  graph::Node* call = trace.scope().emit_operator(op, arguments);
  take_items(trace, call, merged.items);
  for (const Merged::Whole& whole : merged.numbers) merged.leaves[whole.leaf] = merged.items[whole.item].number;
  return left.outputs.tree.around(trace, merged.leaves);
}

}  // namespace gramme::hop
