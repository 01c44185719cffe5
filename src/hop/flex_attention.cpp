// torch.nn.attention.flex_attention: one function of the program changes scores, another masks them. An operator runs
// both for all positions at once, so they are traced on 0-dim tensors.
#include <algorithm>
#include <array>

#include "aten/state.h"
#include "base/imported.h"
#include "base/once.h"
#include "hop/outputs.h"
#include "meta/infer.h"
#include "torch/names.h"

namespace gramme::hop {

using namespace value;
using meta::Argument;
using meta::Record;

namespace {

constexpr const char* kNames[] = {"child", "child_1", "child_2", "child_3", "child_4"};

Tensor* tensor_of(Trace& trace, const Row& row, Value* value) {
  auto* tensor = trace.see_as<Tensor>(value);
  if (!tensor) cannot(Reason::ArgumentKind, row.name);
  for (const shape::SymInt size : tensor->record->sizes) trace.fixed(size);
  for (const shape::SymInt stride : tensor->record->strides) trace.fixed(stride);
  trace.fixed(tensor->record->storage_offset);
  return tensor;
}

PyObject* no_items() {
  return once([] { return PyTuple_New(0); });
}

/// Traces a function of the program on a position, and on its score if it takes one.
graph::Graph* traced(Trace& trace, const Row& row, const char* prefix, Value* function,
                     const std::vector<const Record*>& operands) {
  Body body(trace, row, prefix);
  body.forbid_writes();
  std::vector<Value*> given;
  for (size_t i = 0; i < operands.size(); ++i) given.push_back(body.input(operands[i], kNames[i]));
  trace.scope().index_by_tensors(true);
  Value* result = trace.see(body.call(function, {given.data(), given.size(), nullptr, 0}));
  trace.scope().index_by_tensors(false);
  if (result->kind != Kind::Tensor)
    cannot(Reason::BodyUnsupported, std::string(row.name) + ": a function that does not return a tensor");
  return body.returns(trace.scope().argument(result));
}

/// The records of the result, of the logsumexp of the scores, and of their maxima.
std::array<const Record*, 3> results_of(Trace& trace, const Row& row, const std::array<Tensor*, 3>& tensors) {
  PyObject* const infer = of_torch::object(of_torch::FlexAttentionFakeImpl);
  std::vector<Argument> arguments;
  for (Tensor* tensor : tensors) {
    Argument& argument = arguments.emplace_back();
    argument.kind = Argument::Tensor;
    argument.record = trace.shapes.simplified(tensor->record);
    argument.node = trace.scope().node(tensor);
  }
  for (PyObject* rest : {Py_None, no_items(), Py_None, Py_None}) arguments.push_back(constant(rest));
  meta::Call call;
  call.target = infer;
  call.args = arguments.data();
  call.arg_count = static_cast<uint32_t>(arguments.size());
  const meta::Outcome& outcome = meta::infer(call);
  if (outcome.error || outcome.result.items.size() != 3)
    cannot(Reason::BodyUnsupported, std::string(row.name) + ": tensors of this kind");
  std::array<const Record*, 3> records;
  for (size_t i = 0; i < 3; ++i) records[i] = outcome.result.items[i].record;
  return records;
}

bool needs_gradient(const Argument& argument) { return argument.record && argument.record->requires_grad; }

}  // namespace

Value* flex_attention(Trace& trace, const Row& row, PyObject* op, const Args& args) {
  auto [query, key, value, score_mod, block_mask, scale, options] =
      bind<7>(row, args, {"query", "key", "value", "score_mod", "block_mask", "scale", "kernel_options"});
  if (trace.scope().modes().in_level()) cannot(Reason::BodyUnsupported, "flex_attention inside a transform");
  const std::array<Tensor*, 3> tensors = {tensor_of(trace, row, query), tensor_of(trace, row, key),
                                          tensor_of(trace, row, value)};
  std::vector<Value*> mask = items_in(trace, row, block_mask);
  if (mask.empty()) cannot(Reason::ArgumentKind, row.name);
  Value* mask_mod = trace.see(mask.back());
  mask.pop_back();
  PyObject* const no_mask = of_torch::object(of_torch::NoopMask);
  if (auto* known = as<Constant>(mask_mod); known && known->object == Py_None) mask_mod = trace.pinned(no_mask);

  PyObject* const int32 = once([] { return imported("torch", "int32").release(); });
  const Record* score =
      would_give(trace, row, trace.shapes.simplified(tensors[0]->record), "new_empty", {constant(no_items())});
  const Record* place = would_give(trace, row, score, "to", {constant(int32)});
  if (tensors[0]->record->requires_grad) score = meta::with_requires_grad(score, true, true);
  graph::Graph* scores = traced(trace, row, row.prefix, score_mod, {score, place, place, place, place});
  graph::Graph* masks = traced(trace, row, "mask_fn", mask_mod, {place, place, place, place});

  auto tuple = [&](const std::vector<Argument>& items) { return trace.scope().sequence_of(Argument::Tuple, items); };
  std::vector<Argument> arguments, mask_items;
  for (Tensor* tensor : tensors) arguments.push_back(operand(trace, tensor));
  const Argument score_body = trace.scope().body(scores);
  for (Value* item : mask) mask_items.push_back(trace.scope().argument(item));
  mask_items.push_back(trace.scope().body(masks));
  const std::vector<Argument> of_score = lifted(*scores), of_mask = lifted(*masks);
  bool differentiable = std::ranges::any_of(arguments, needs_gradient) || std::ranges::any_of(of_score, needs_gradient);
  differentiable &= aten::grad_enabled();
  arguments.insert(arguments.end(), {score_body, tuple(mask_items), trace.scope().argument(scale),
                                     trace.scope().argument(options), tuple(of_score), tuple(of_mask)});

  std::vector<Tensor*> results;
  for (const Record* record : results_of(trace, row, tensors)) {
    const bool needs = differentiable && results.size() < 2;
    results.push_back(new_result(trace, needs ? meta::with_requires_grad(record, true, false) : record));
  }
  take_results(trace, trace.scope().emit_operator(op, arguments), results);
  return trace.tuple({results.begin(), results.end()});
}

}  // namespace gramme::hop
