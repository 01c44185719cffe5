// Checks and joins the results of control flow's functions, and turns them into results of the operator.
#include "hop/outputs.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/imported.h"
#include "base/once.h"
#include "meta/infer.h"
#include "trace/bodies.h"
#include "value/views.h"

namespace gramme::hop {

using namespace value;
using meta::Argument;

namespace {

[[noreturn]] void refuse(const char* what) { cannot(Reason::BodyUnsupported, what); }

bool needs_gradient(Value* leaf) {
  auto* tensor = as<Tensor>(leaf);
  return tensor && meta::physical(tensor->record)->requires_grad;
}

/// The smallest range with both ints.
std::optional<shape::Range> range_of(Value* a, Value* b) {
  auto number = [](Value* value) -> std::optional<int64_t> {
    if (value->kind != Kind::Constant || !PyLong_CheckExact(value->object)) return {};
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value->object, &overflow);
    return overflow ? std::optional<int64_t>() : number;
  };
  const std::optional<int64_t> one = number(a), other = number(b);
  if (!one || !other) return {};
  return shape::Range{std::min(*one, *other), std::max(*one, *other)};
}

/// The record of a body's tensor as a result in the graph around.
const meta::Record* record_of(Trace& trace, const Tensor* tensor) {
  const meta::Record* record = trace.shapes.simplified(tensor->record);
  if (record->requires_grad && record->is_leaf) refuse("a function that returns a leaf");
  if (!tensor->attributes.empty()) refuse("a function that returns a tensor with attributes of its own");
  return record;
}

}  // namespace

std::vector<Value*> items_in(Trace& trace, const Row& row, Value* sequence) {
  sequence = trace.see(sequence);
  if (auto* tuple = as<Tuple>(sequence)) return tuple->items;
  if (auto* list = as<List>(sequence)) return list->items();
  cannot(Reason::ArgumentKind, row.name);
}

std::vector<Tensor*> tensors_in(Trace& trace, const Row& row, Value* sequence) {
  std::vector<Tensor*> tensors;
  for (Value* item : items_in(trace, row, sequence)) {
    tensors.push_back(trace.see_as<Tensor>(item));
    if (!tensors.back()) cannot(Reason::BodyUnsupported, std::string(row.name) + " of something else than tensors");
  }
  return tensors;
}

bool is_whole(Value* seen) {
  if (auto* number = as<Number>(seen)) return number->type == &PyLong_Type;
  return seen->kind == Kind::Constant && PyLong_CheckExact(seen->object);
}

Outputs::Outputs(Trace& trace, const Body& body, Value* result, bool numbers) : tree(trace, result), numbers(numbers) {
  for (Value*& leaf : tree.leaves) {
    leaf = trace.see(leaf);
    auto* tensor = as<Tensor>(leaf);
    const bool returned = tensor ? body.is_own(tensor) : numbers && leaf->kind == Kind::Number;
    if (returned || (numbers && is_whole(leaf)))
      arguments.push_back(trace.scope().argument(leaf));
    else
      arguments.emplace_back();
  }
  tree.name_leaves(*body.graph());
}

Merged merge(Trace& trace, const Outputs& left, const Outputs& right) {
  if (!left.tree.has_form_of(right.tree)) refuse("functions that return different trees");
  Merged merged;
  std::unordered_map<const Tensor*, std::pair<const Tensor*, Tensor*>> pairs;
  std::unordered_set<const Tensor*> roots;
  // PyTorch's operator does not accept numbers beside tensors that need gradients.
  const bool numbers = !trace.contract.differentiates || std::ranges::none_of(left.tree.leaves, needs_gradient);
  for (size_t i = 0; i < left.tree.leaves.size(); ++i) {
    Value *a = left.tree.leaves[i], *b = right.tree.leaves[i];
    if (is_same(trace, a, b)) {
      merged.leaves.push_back(a);
      if (!numbers || a->kind != Kind::Constant || !PyLong_CheckExact(a->object)) continue;
      merged.left.push_back(constant(a->object));
      merged.right.push_back(constant(b->object));
      merged.items.emplace_back();
      continue;
    }
    if (const std::optional<shape::Range> range = range_of(a, b); range && numbers && trace.data.scalars) {
      merged.numbers.push_back({merged.leaves.size(), merged.items.size()});
      merged.items.push_back({nullptr, range});
      merged.leaves.push_back(nullptr);
      merged.left.push_back(constant(a->object));
      merged.right.push_back(constant(b->object));
      continue;
    }
    auto *one = as<Tensor>(a), *other = as<Tensor>(b);
    if (!one || !other) refuse("functions that return different values besides tensors");
    if (const auto known = pairs.find(one); known != pairs.end()) {
      if (known->second.first != other) refuse("functions that return one tensor twice");
      merged.leaves.push_back(known->second.second);
      continue;
    }
    if (!left.arguments[i].node || !right.arguments[i].node) refuse("a function that returns what it was given");
    if (!roots.insert(storage_root(one)).second || !roots.insert(storage_root(other)).second)
      refuse("a function that returns tensors of one memory");
    const meta::Record *record = record_of(trace, one), *second = record_of(trace, other);
    // An exported graph is differentiated operation by operation when it runs.
    if (!trace.contract.runs && meta::differ_in_gradients_only(record, second))
      record = second = record->requires_grad ? record : second;
    if (record != second) refuse("functions that return tensors of different metadata");
    Tensor* result = new_result(trace, record);
    pairs[one] = {other, result};
    merged.leaves.push_back(result);
    merged.tensors.push_back(result);
    merged.items.push_back({result});
    merged.left.push_back(left.arguments[i]);
    merged.right.push_back(right.arguments[i]);
  }
  return merged;
}

std::vector<Tensor*> own_tensors(Trace& trace, const Outputs& outputs) {
  std::vector<Tensor*> tensors;
  std::unordered_set<const Tensor*> roots;
  for (size_t i = 0; i < outputs.tree.leaves.size(); ++i) {
    auto* tensor = as<Tensor>(outputs.tree.leaves[i]);
    if (outputs.numbers && is_whole(outputs.tree.leaves[i])) {
      tensors.push_back(nullptr);
      continue;
    }
    if (!tensor) refuse("a function that returns something else than tensors");
    if (!outputs.arguments[i].node) refuse("a function that returns what it was given");
    if (!roots.insert(storage_root(tensor)).second) refuse("a function that returns tensors of one memory");
    record_of(trace, tensor);
    tensors.push_back(tensor);
  }
  return tensors;
}

const meta::Record* would_give(Trace& trace, const Row& row, const meta::Record* self, const char* method,
                               const std::vector<Argument>& arguments) {
  Argument tensor;
  tensor.kind = Argument::Tensor;
  tensor.record = self;
  std::vector<Argument> all = {tensor};
  all.insert(all.end(), arguments.begin(), arguments.end());
  meta::Call call;
  call.kind = meta::Call::Method;
  call.target = trace.keep(take(PyUnicode_InternFromString(method)));
  call.args = all.data();
  call.arg_count = static_cast<uint32_t>(all.size());
  const meta::Outcome& outcome = meta::infer(call, trace.scope().modes().levels(), &trace.shapes.assumptions);
  if (outcome.error || outcome.result.kind != meta::Result::Tensor)
    cannot(Reason::BodyUnsupported, std::string(row.name) + ": tensors of this kind");
  for (const shape::Expr guard : outcome.guards) trace.shapes.learn(guard, trace.position());
  return outcome.result.record;
}

Tensor* new_result(Trace& trace, const meta::Record* record) {
  auto* tensor = trace.make<Tensor>();
  tensor->record = record;
  tensor->made_at = trace.steps();
  return tensor;
}

/// Takes the items in the order of PyTorch's front end: all, then numbers once more before the others.
void take_items(Trace& trace, graph::Node* call, std::vector<Item>& items) {
  PyObject* const getitem = once([] { return imported("_operator", "getitem").release(); });
  std::vector<const graph::Node*> numbers;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].range) continue;
    const shape::Range range = *items[i].range;
    graph::Node* node = trace.scope().item(call, i, nullptr);
    numbers.push_back(node);
    items[i].number = trace.scope().whole_of(node, trace.contract.as_is ? range : shape::Range{});
    const shape::Expr expr = as<Number>(items[i].number)->expr;
    if (range.low != shape::Range::kNoLow) trace.scope().assert_true(shape::at_least(expr, shape::constant(range.low)));
    if (range.high != shape::Range::kNoHigh)
      trace.scope().assert_true(shape::at_most(expr, shape::constant(range.high)));
  }
  for (size_t i = 0; i < items.size(); ++i)
    if (Tensor* tensor = items[i].tensor)
      tensor->node = trace.scope().item(call, i, tensor->record);
    else
      trace.scope().skip_name(getitem);
  for (const graph::Node* number : numbers) trace.scope().graph().name_last(number);
}

Argument operand(Trace& trace, Tensor* tensor) {
  if (trace.contract.differentiates && aten::grad_enabled())
    trace.scope().state<trace::TakenByBodies>().tensors.push_back({tensor, nullptr, trace.steps()});
  return trace.scope().argument(tensor);
}

void refuse_other_gradients(Trace& trace, const std::vector<Argument>& inputs, const std::vector<Tensor*>& tensors) {
  if (!trace.contract.differentiates || !trace.contract.runs || !aten::grad_enabled()) return;
  auto needs = [](const meta::Record* record) { return record && meta::physical(record)->requires_grad; };
  if (std::ranges::none_of(inputs, [&](const Argument& input) { return needs(input.record); })) return;
  if (trace.scope().random()) refuse("random numbers, which PyTorch's operator would draw again for gradients");
  if (!std::ranges::all_of(tensors, needs_gradient))
    refuse("a function that returns a tensor without gradient, beside inputs that have one");
}

}  // namespace gramme::hop
