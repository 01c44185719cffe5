// while_loop, map and scan: operators that run one function repeatedly, on tensors of the same metadata each time.
#include <algorithm>
#include <cstring>

#include "base/imported.h"
#include "graph/names.h"
#include "hop/outputs.h"

namespace gramme::hop {

using namespace value;
using meta::Argument;
using meta::Record;

namespace {

[[noreturn]] void refuse(const Row& row, const char* what) {
  cannot(Reason::BodyUnsupported, std::string(row.name) + ": " + what);
}

// ---- metadata of the tensors inside

Argument number(Trace& trace, shape::SymInt value) {
  Argument argument;
  argument.object = trace.keep(take(PyLong_FromLongLong(trace.fixed(value))));
  return argument;
}

/// The record of an item along the first dimension.
const Record* item_of(Trace& trace, const Row& row, const Tensor* tensor) {
  const Record* record = trace.shapes.simplified(tensor->record);
  if (record->sizes.empty()) refuse(row, "a tensor without dimensions");
  return would_give(trace, row, record, "select", {number(trace, 0), number(trace, 0)});
}

/// The record of `count` such tensors stacked.
const Record* stack_of(Trace& trace, const Row& row, const Record* record, shape::SymInt count) {
  std::vector<Argument> times = {number(trace, count)};
  for (size_t i = 0; i < record->sizes.size(); ++i) times.push_back(number(trace, 1));
  return would_give(trace, row, would_give(trace, row, record, "unsqueeze", {number(trace, 0)}), "repeat", times);
}

/// The record of an initial value as the body sees it: of a copy.
const Record* copy_of(Trace& trace, const Row& row, const Tensor* tensor) {
  const Record* record = trace.shapes.simplified(tensor->record);
  const Record* copy = would_give(trace, row, record, "clone", {});
  if (copy->strides != record->strides || copy->storage_offset != record->storage_offset)
    refuse(row, "a tensor that does not lie densely in its memory");
  return copy;
}

// ---- bodies

/// Names for a body's operands, as PyTorch gives them in a separate graph.
class Children {
 public:
  Children(Trace& trace, const std::vector<std::vector<Tensor*>>& operands) : trace_(trace) {
    const graph::Names names = graph::names_so_far(trace.scope().graph());
    for (const std::vector<Tensor*>& tensors : operands)
      for (Tensor* tensor : tensors) {
        const size_t id = trace.scope().node(tensor)->id;
        if (id < names.node.size()) space_.create(names.node[id]);
      }
  }
  const char* next() { return keep(space_.create("child")); }
  const char* next_number() {
    const int earlier = numbers_++;
    return keep("unbacked_symint" + (earlier ? "_" + std::to_string(earlier - 1) : std::string()));
  }

 private:
  const char* keep(const std::string& name) {
    char* copy = static_cast<char*>(trace_.arena.bytes_for(name.size() + 1));
    return std::strcpy(copy, name.c_str());
  }

  Trace& trace_;
  graph::Namespace space_;
  int numbers_ = 0;
};

/// Traces a function of a loop on operands with the metadata of each run.
class Loop {
 public:
  Loop(Trace& trace, const Row& row, const char* prefix) : trace_(trace), body_(trace, row, prefix) {
    body_.forbid_writes();
  }
  /// Adds an operand that the operator passes.
  void add(const Record* record, const char* name) { operands_.push_back(body_.input(record, name)); }
  /// Adds an operand that is the same in each run.
  void add(Tensor* tensor) {
    trace_.scope().node(tensor)->effect = true;
    operands_.push_back(tensor);
  }
  /// Adds an int operand that may differ between runs.
  void add_whole(const char* name) { operands_.push_back(body_.whole_input(name)); }
  Outputs run(Value* function, bool numbers = false) {
    Value* result = body_.call(function, {operands_.data(), operands_.size(), nullptr, 0});
    return Outputs(trace_, body_, result, numbers);
  }
  graph::Graph* leave() {
    body_.leave();
    return body_.graph();
  }

 private:
  Trace& trace_;
  Body body_;
  std::vector<Value*> operands_;
};

std::vector<Argument> arguments_of(Trace& trace, const std::vector<Tensor*>& tensors) {
  std::vector<Argument> arguments;
  for (Tensor* tensor : tensors) arguments.push_back(operand(trace, tensor));
  return arguments;
}

/// The result of a loop whose body returns a tree of tensors.
Value* result_of(Trace& trace, const Tree& tree, graph::Node* call, const std::vector<Tensor*>& tensors) {
  take_results(trace, call, tensors);
  return tree.around(trace, {tensors.begin(), tensors.end()});
}

void refuse_vmap(Trace& trace, const Row& row) {
  if (trace.scope().modes().in_level()) refuse(row, "inside torch.vmap");
}

/// Updates the records of carries that need no gradient at first but do after a run; true if there are any.
bool gain_gradients(Trace& trace, const Outputs& outputs, std::vector<const Record*>& carries) {
  bool gained = false;
  for (size_t i = 0; i < std::min(carries.size(), outputs.tree.leaves.size()); ++i) {
    auto* made = as<Tensor>(outputs.tree.leaves[i]);
    const Record* record = made ? trace.shapes.simplified(made->record) : carries[i];
    if (record == carries[i] || record != meta::with_requires_grad(carries[i], true, false)) continue;
    carries[i] = record;
    gained = true;
  }
  return gained;
}

shape::SymInt rows(const std::vector<Tensor*>& tensors) { return tensors[0]->record->sizes[0]; }

}  // namespace

namespace {

/// The values that a while_loop passes from one run to the next.
struct Carries {
  std::vector<Value*> values;          // tensors and ints before the first run
  std::vector<const Record*> records;  // for each tensor; null for an int
  std::vector<Tensor*> tensors;

  Carries(Trace& trace, const Row& row, Value* sequence) : values(items_in(trace, row, sequence)) {
    for (Value*& value : values) {
      value = trace.see(value);
      auto* tensor = as<Tensor>(value);
      if (!tensor && !is_whole(value)) refuse(row, "a carry that is neither a tensor nor an int");
      records.push_back(tensor ? copy_of(trace, row, tensor) : nullptr);
      if (tensor) tensors.push_back(tensor);
    }
  }
  void add_to(Loop& loop, Children& children) const {
    for (const Record* record : records)
      if (record)
        loop.add(record, children.next());
      else
        loop.add_whole(children.next_number());
  }
  /// As arguments of the operator.
  std::vector<Argument> arguments(Trace& trace) const {
    std::vector<Argument> arguments;
    for (Value* value : values) {
      auto* tensor = as<Tensor>(value);
      arguments.push_back(tensor ? operand(trace, tensor) : trace.scope().argument(value));
    }
    return arguments;
  }
  /// The operator's results, given the body's outputs.
  std::vector<Item> results(Trace& trace, const Row& row, const Outputs& outputs) const {
    const std::vector<Tensor*> made = own_tensors(trace, outputs);
    if (made.size() != records.size()) refuse(row, "a body that returns another number of carries than it takes");
    std::vector<Item> items;
    for (size_t i = 0; i < made.size(); ++i) {
      const Record* record = made[i] ? trace.shapes.simplified(made[i]->record) : nullptr;
      if (record != records[i]) refuse(row, "a body that returns tensors of other metadata than it takes");
      Item& item = items.emplace_back();
      if (record)
        item.tensor = new_result(trace, record);
      else
        item.range = shape::Range();
    }
    return items;
  }
};

}  // namespace

Value* while_loop(Trace& trace, const Row& row, PyObject* op, const Args& args) {
  auto [condition, function, carried, additional] =
      bind<4>(row, args, {"cond_fn", "body_fn", "carried_inputs", "additional_inputs"});
  refuse_vmap(trace, row);
  if (!items_in(trace, row, additional).empty()) cannot(Reason::ArgumentKind, row.name);
  const Carries carries(trace, row, carried);

  Children children(trace, {carries.tensors});
  Loop asks(trace, row, row.prefix);
  carries.add_to(asks, children);
  const Outputs answer = asks.run(condition, true);
  graph::Graph* asked = asks.leave();
  if (answer.tree.leaves.size() != 1) refuse(row, "a condition that is not one value");
  if (auto* known = as<Constant>(answer.tree.leaves[0])) {
    if (known->object != Py_False) refuse(row, "a condition that is never False");
    return carried;
  }
  const Argument& truth = answer.arguments[0];
  if (!truth.node) refuse(row, "a condition that is not made of the operands");
  const bool one =
      truth.record ? truth.record->sizes.empty() && meta::dtype_object(*truth.record) == imported("torch", "bool").get()
                   : truth.node->number_type == &PyBool_Type;
  if (!one) refuse(row, "a condition that is not one bool");
  asked->returns(truth);

  Loop runs(trace, row, "body_fn");
  carries.add_to(runs, children);
  const Outputs outputs = runs.run(function, true);
  graph::Graph* body = runs.leave();
  std::vector<Item> results = carries.results(trace, row, outputs);
  body->returns(trace.scope().sequence_of(Argument::Tuple, outputs.arguments));
  trace.scope().graph().merge_inputs(*asked, "_cond_fn", *body, "_body_fn");

  const std::vector<Argument> begins = carries.arguments(trace), from_outside = lifted(*body);
  std::vector<Argument> all = begins;
  all.insert(all.end(), from_outside.begin(), from_outside.end());
  std::vector<Tensor*> made;
  for (const Item& item : results)
    if (item.tensor) made.push_back(item.tensor);
  refuse_other_gradients(trace, all, made);
  const std::vector<Argument> arguments = {trace.scope().body(asked), trace.scope().body(body),
                                           trace.scope().sequence_of(Argument::Tuple, begins),
                                           trace.scope().sequence_of(Argument::Tuple, from_outside)};
  take_items(trace, trace.scope().emit_operator(op, arguments), results);
  std::vector<Value*> leaves;
  for (const Item& item : results) leaves.push_back(item.tensor ? item.tensor : item.number);
  return outputs.tree.around(trace, leaves);
}

Value* map(Trace& trace, const Row& row, PyObject* op, const Args& args) {
  auto [function, mapped, others] = bind<3>(row, args, {"f", "xs", "pos_args"});
  refuse_vmap(trace, row);
  const std::vector<Tensor*> xs = tensors_in(trace, row, mapped), same = tensors_in(trace, row, others);
  if (xs.empty()) refuse(row, "of nothing");
  std::vector<const Record*> records;
  for (const Tensor* x : xs) records.push_back(item_of(trace, row, x));

  Children children(trace, {xs});
  Loop loop(trace, row, row.prefix);
  for (const Record* record : records) loop.add(record, children.next());
  for (Tensor* tensor : same) loop.add(tensor);
  const Outputs outputs = loop.run(function);
  graph::Graph* body = loop.leave();
  std::vector<Tensor*> results;
  for (const Tensor* made : own_tensors(trace, outputs))
    results.push_back(new_result(trace, stack_of(trace, row, trace.shapes.simplified(made->record), rows(xs))));
  body->returns(trace.scope().sequence_of(Argument::Tuple, outputs.arguments));

  std::vector<Argument> all = arguments_of(trace, xs);
  const Argument given = trace.scope().sequence_of(Argument::List, all);
  const std::vector<Argument> from_outside = lifted(*body);
  all.insert(all.end(), from_outside.begin(), from_outside.end());
  refuse_other_gradients(trace, all, results);
  const std::vector<Argument> arguments = {trace.scope().body(body), given,
                                           trace.scope().sequence_of(Argument::List, from_outside)};
  return result_of(trace, outputs.tree, trace.scope().emit_operator(op, arguments), results);
}

Value* scan(Trace& trace, const Row& row, PyObject* op, const Args& args) {
  auto [function, init, scanned, additional] = bind<4>(row, args, {"combine_fn", "init", "xs", "additional_inputs"});
  refuse_vmap(trace, row);
  const std::vector<Tensor*> carries = tensors_in(trace, row, init), xs = tensors_in(trace, row, scanned);
  const std::vector<Tensor*> same = tensors_in(trace, row, additional);
  if (xs.empty()) refuse(row, "of nothing");
  std::vector<const Record*> records, items;
  for (const Tensor* carry : carries) records.push_back(copy_of(trace, row, carry));
  for (const Tensor* x : xs) items.push_back(item_of(trace, row, x));

  auto trace_body = [&] {
    Children children(trace, {carries, xs});
    Loop loop(trace, row, row.prefix);
    for (const Record* record : records) loop.add(record, children.next());
    for (const Record* record : items) loop.add(record, children.next());
    for (Tensor* tensor : same) loop.add(tensor);
    Outputs outputs = loop.run(function);
    return std::pair(std::move(outputs), loop.leave());
  };
  auto [outputs, body] = trace_body();
  if (gain_gradients(trace, outputs, records)) std::tie(outputs, body) = trace_body();
  const std::vector<Tensor*> made = own_tensors(trace, outputs);
  if (made.size() < records.size()) refuse(row, "a function that returns fewer tensors than it takes");
  std::vector<Tensor*> results;
  for (size_t i = 0; i < made.size(); ++i) {
    const Record* record = trace.shapes.simplified(made[i]->record);
    if (i < records.size() && record != records[i]) refuse(row, "a carry of other metadata than the first");
    results.push_back(new_result(trace, i < records.size() ? record : stack_of(trace, row, record, rows(xs))));
  }
  body->returns(trace.scope().sequence_of(Argument::List, outputs.arguments));

  const std::vector<Argument> begins = arguments_of(trace, carries), rows = arguments_of(trace, xs);
  const std::vector<Argument> from_outside = lifted(*body);
  std::vector<Argument> all = begins;
  all.insert(all.end(), rows.begin(), rows.end());
  all.insert(all.end(), from_outside.begin(), from_outside.end());
  refuse_other_gradients(trace, all, results);
  const std::vector<Argument> arguments = {trace.scope().body(body), trace.scope().sequence_of(Argument::List, begins),
                                           trace.scope().sequence_of(Argument::List, rows),
                                           trace.scope().sequence_of(Argument::List, from_outside)};
  return result_of(trace, outputs.tree, trace.scope().emit_operator(op, arguments), results);
}

}  // namespace gramme::hop
