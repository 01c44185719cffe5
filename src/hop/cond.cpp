// torch.cond: one of two functions runs, which a tensor says.
#include "base/imported.h"
#include "base/once.h"
#include "hop/body.h"
#include "hop/outputs.h"

namespace gramme::hop {

using namespace value;
using meta::Argument;

namespace {

/// Called for real, it takes tensors only, and PyTorch's front end numbers, too.
void check_operands(Trace& trace, const Row& row, Value* operands) {
  for (Value* leaf : Tree(trace, operands).leaves) {
    auto* known = as<Constant>(leaf);
    const bool number = leaf->kind == Kind::Number || (known && PyLong_Check(known->object));
    if (!number && leaf->kind != Kind::Tensor) cannot(Reason::ArgumentKind, row.name);
  }
}

/// Without a tensor it is an if.
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

/// A branch that may neither change nor give out what is not its own.
Branch trace_branch(Trace& trace, const char* prefix, const Row& row, Value* function,
                    const std::vector<Value*>& operands) {
  Body body(trace, prefix, row.effects);
  body.forbid_writes();
  Outputs outputs(trace, body, body.call(function, {operands.data(), operands.size(), nullptr, 0}));
  body.leave();
  return {body.graph(), std::move(outputs)};
}

/// The ints that one branch gives and not the other, as numbers out of data.
void take_numbers(Trace& trace, graph::Node* call, const meta::Record* any, Merged& merged) {
  PyObject* const getitem = once([] { return imported("_operator", "getitem").release(); });
  if (merged.numbers.empty()) return;
  Tensor* all = new_result(trace, any);  // stands for the tuple
  all->node = call;
  for (const Merged::Whole& whole : merged.numbers) {
    Value* number = trace.scope().emit_whole(getitem, {all, trace.integer(static_cast<int64_t>(whole.place))});
    const shape::Expr expr = as<Number>(number)->expr;
    trace.scope().assert_true(shape::at_least(expr, shape::constant(whole.range.low)));
    trace.scope().assert_true(shape::at_most(expr, shape::constant(whole.range.high)));
    merged.leaves[whole.leaf] = number;
  }
}

}  // namespace

Value* cond(Trace& trace, const Row& row, PyObject* op, const Args& args) {
  auto [pred, yes, no, given] = bind<4>(row, args, {"pred", "true_fn", "false_fn", "operands"});
  const std::vector<Value*> operands = items_in(trace, row, given);
  auto* tensor = trace.see_as<Tensor>(pred);
  if (!tensor)
    return protocol::call(trace, chooses(trace, row, pred) ? yes : no, {operands.data(), operands.size(), nullptr, 0});
  check_operands(trace, row, given);
  if (!trace.scope().levels().empty()) cannot(Reason::BodyUnsupported, "torch.cond inside torch.vmap");
  if (tensor->record->symbolic || meta::numel(*tensor->record) != 1)
    cannot(Reason::BodyUnsupported, "torch.cond of a tensor that is not one value");
  const Argument decides = trace.scope().argument(tensor);
  const Branch left = trace_branch(trace, row.prefix, row, yes, operands);
  const Branch right = trace_branch(trace, "cond_false", row, no, operands);
  Merged merged = merge(trace, left.outputs, right.outputs);
  left.graph->returns(trace.scope().sequence_of(Argument::Tuple, merged.left));
  right.graph->returns(trace.scope().sequence_of(Argument::Tuple, merged.right));
  trace.scope().graph().merge_inputs(*left.graph, "_true_branch", *right.graph, "_false_branch");
  const std::vector<Argument> inputs = lifted(*left.graph);
  refuse_other_gradients(trace, inputs, merged.tensors);
  const std::vector<Argument> arguments = {decides, trace.scope().body(left.graph), trace.scope().body(right.graph),
                                           trace.scope().sequence_of(Argument::Tuple, inputs)};
  graph::Node* call = trace.scope().emit_operator(op, arguments);
  take_numbers(trace, call, tensor->record, merged);
  take_outputs(trace, call, merged.tensors, merged.places);
  return left.outputs.tree.around(trace, merged.leaves);
}

}  // namespace gramme::hop
