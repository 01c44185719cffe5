// Data-dependent numbers and sizes: nodes compute them, and assumptions about them are checked when the graph runs.
#include <algorithm>
#include <limits>
#include <utility>

#include "base/imported.h"
#include "base/once.h"
#include "meta/numbers.h"
#include "torch/names.h"
#include "trace/scope.h"

namespace gramme::trace {

using meta::Argument;
using meta::constant;
using shape::Expr;
using value::Number;
using value::Tensor;

namespace {

Owned<> overload(const char* name, const char* which) {
  Owned<> packet = take(PyObject_GetAttrString(of_torch::object(of_torch::Operators), "aten"));
  packet = take(PyObject_GetAttrString(packet.get(), name));
  return take(PyObject_GetAttrString(packet.get(), which));
}

/// PyTorch's message, without its symbol names where they mean nothing to the reader.
std::string asked(const std::string& message) {
  const std::string start = "data-dependent expression ";
  const size_t from = message.find(start);
  if (from == std::string::npos) return message.substr(0, message.find('\n'));
  const size_t to = message.find(" (unhinted", from);
  return message.substr(from + start.size(), to == std::string::npos ? to : to - from - start.size());
}

Argument result_of(graph::Node* node, Argument::Kind kind) {
  Argument result;
  result.kind = kind;
  result.node = node;
  result.record = node->record;
  return result;
}

bool holds_number(const meta::Result& result) {
  return result.kind == meta::Result::Number || std::ranges::any_of(result.items, holds_number);
}

}  // namespace

/// Infers a call on data-dependent sizes. Its assumptions are asserted before it, those about its results after it.
const meta::Outcome& Scope::inferred_of_data(const meta::Call& call) {
  const DataNumbers::Answer& answer = data_.infer(call);
  const meta::Outcome& outcome = answer.outcome;
  if (!answer.undecided.empty()) cannot(Reason::UnbackedCondition, asked(answer.undecided));
  const bool learns = !answer.made.empty() || !answer.asserted.empty() || holds_number(outcome.result);
  if (graph_ != &root_ && learns) cannot(Reason::BodyUnsupported, "data-dependent numbers or sizes in a body");
  const bool would_raise = outcome.raised && !meta::takes_unbacked(call, capture_.shapes.assumptions);
  if (outcome.error) cannot(would_raise ? Reason::OperatorFailed : Reason::DataDependentValue, outcome.message);
  for (const Expr guard : outcome.guards) capture_.shapes.learn(guard, capture_.position());
  for (const shape::Range range : answer.made) capture_.shapes.add_unbacked(range, capture_.position());
  for (const Expr condition : answer.asserted) {
    if (is_bound(condition))
      assert_true(condition);
    else
      data_.wait(condition);
  }
  return outcome;
}

/// True if every symbol of the expression comes from a node or a source.
bool Scope::is_bound(Expr e) const {
  bool bound = true;
  each_symbol(e, [&](Expr symbol) { bound &= capture_.shapes.source_of(symbol) || inputs_.symbol(symbol); });
  return bound;
}

/// Makes nodes for a result's data-dependent sizes and offset.
void Scope::bind_sizes(const meta::Record& record, graph::Node* node) {
  PyObject* const size_of = once([] { return overload("sym_size", "int").release(); });
  PyObject* const offset_of = once([] { return overload("sym_storage_offset", "default").release(); });
  auto bind = [&](shape::SymInt number, PyObject* function, size_t dim, uint32_t count) {
    if (number.is_number() || number.expr()->kind != shape::Kind::Symbol || is_bound(number.expr())) return;
    meta::Call call;
    call.target = function;
    call.arg_count = count;
    call.args = sequence_of(Argument::Tuple,
                            {result_of(node, Argument::Tensor), constant(capture_.keep(take(PyLong_FromSize_t(dim))))})
                    .items;
    graph::Node* read = graph_->call(call, capture_.position());
    read->number_type = &PyLong_Type;
    inputs_.bind(number.expr(), read);
  };
  for (size_t d = 0; d < record.sizes.size(); ++d) bind(record.sizes[d], size_of, d, 2);
  bind(record.storage_offset, offset_of, 0, 1);
}

graph::Node* Scope::assert_node(graph::Node* condition, const std::string& text) {
  PyObject* const check = of_torch::object(of_torch::AssertScalar);
  expect_raise();
  meta::Call call;
  call.target = check;
  call.arg_count = 2;
  Owned<> message = take(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
  call.args = sequence_of(Argument::Tuple,
                          {result_of(condition, Argument::Number), constant(capture_.keep(std::move(message)))})
                  .items;
  graph::Node* node = graph_->call(call, capture_.position());
  node->effect = true;
  return node;
}

Value* Scope::emit_whole(PyObject* function, std::initializer_list<Value*> args, shape::Range range) {
  expect_raise();
  return whole_of(emit_number(function, args, &PyLong_Type, {}, take(PyLong_FromLong(2)))->node, range);
}

Value* Scope::whole_of(graph::Node* node, shape::Range range) {
  if (graph_ != &root_) cannot(Reason::BodyUnsupported, "a data-dependent number in a body");
  node->effect = true;
  return bind_whole(node, range);
}

Value* Scope::whole_input(const char* label) {
  return bind_whole(graph_->input(nullptr, label, capture_.position()), {});
}

Value* Scope::bind_whole(graph::Node* node, shape::Range range) {
  node->number_type = &PyLong_Type;
  const Expr symbol = capture_.shapes.add_unbacked(range, capture_.position());
  inputs_.bind(symbol, node);
  return capture_.numbers.expression(symbol);
}

void Scope::note_item(Number* number, Tensor* tensor) {
  const meta::Interval range = meta::floats_of(*tensor->record);
  const bool narrow = range.high <= std::numeric_limits<float>::max();
  if (number->type == &PyBool_Type) number->range = {0, 1};
  // compilers' kernels take 32-bit floats
  if (number->type == &PyFloat_Type && (narrow || capture_.contract.as_is)) number->range = range;
  if (!number->expr && graph_ == &root_) data_.note_item(number->node, tensor, writes_.count());
}

/// The tensor whose item the node takes, if its content is still the same; else null. It is more exact than the item,
/// which compilers' kernels take as a 32-bit float.
Tensor* Scope::copied_item(const graph::Node* item) {
  static PyObject *const to = intern("to"), *const reshape = intern("reshape"), *const copy = intern("copy");
  static PyObject* const names[] = {copy};
  PyObject* const float64 = once([] { return imported("torch", "float64").release(); });
  Tensor* const found = graph_ == &root_ ? data_.item_of(item, writes_.count()) : nullptr;
  if (!found || found->node != item->call.args[0].node) return nullptr;  // the tensor was written since
  Value* tensor = found;
  const std::vector<shape::SymInt>& sizes = found->record->sizes;
  if (!std::ranges::all_of(sizes, [](shape::SymInt size) { return size.number() == 1; })) return nullptr;
  tensor = detached(tensor);
  Value* converted[] = {tensor, capture_.constant(float64), capture_.constant(Py_True)};
  tensor = emit_method(to, Args{converted, 2, names, 1});
  Value* reshaped[] = {tensor, capture_.tuple({})};
  return static_cast<Tensor*>(sizes.empty() ? tensor : emit_method(reshape, Args{reshaped, 2, nullptr, 0}));
}

Tensor* Scope::as_tensor(Value* number) {
  PyObject* const make = once([] { return imported("torch", "scalar_tensor").release(); });
  static PyObject* const k_dtype = intern("dtype");
  static PyObject* const names[] = {k_dtype};
  PyObject* const float64 = once([] { return imported("torch", "float64").release(); });
  auto* varies = value::as<Number>(number);
  graph::Node* from = varies ? node(varies) : nullptr;
  if (Tensor* known = data_.tensor_of(from)) return known;
  if (Tensor* copied = from && !capture_.contract.as_is ? copied_item(from) : nullptr) {
    data_.note_tensor(from, copied);
    return copied;
  }
  Argument of = varies ? result_of(from, Argument::Number) : constant(number->object);
  of.object = number->object;
  meta::Call call;
  call.target = make;
  call.arg_count = call.keyword_count = 1;
  call.args = sequence_of(Argument::Tuple, {of}).items;
  call.keyword_names = names;
  call.keyword_args = sequence_of(Argument::Tuple, {constant(float64)}).items;
  auto* tensor = capture_.make<Tensor>();
  tensor->record = meta::infer(call).result.record;
  tensor->node = graph_->call(call, capture_.position());
  tensor->node->record = tensor->record;
  tensor->made_at = capture_.steps();
  if (varies && graph_ == &root_) data_.note_tensor(from, tensor);
  return tensor;
}

Number* Scope::item_of(Tensor* tensor) {
  static PyObject* const name = intern("item");
  Value* self = tensor;
  auto* number = value::as<Number>(emit_method(name, Args{&self, 1, nullptr, 0}));
  if (!number) cannot(Reason::DataDependentValue, "Tensor.item");
  if (number->expr) return number;
  number->node->effect = false;  // may be dropped if unused
  if (number->type == &PyBool_Type) number->range = {0, 1};
  if (graph_ == &root_) data_.note_tensor(number->node, tensor);
  return number;
}

void Scope::assert_true(Expr condition) {
  const std::optional<bool> known = capture_.shapes.assumptions.decide(condition);
  if (known == true) return;
  if (known == false) cannot(Reason::OperatorFailed, "an assertion about a data-dependent number that does not hold");
  if (condition->kind == shape::Kind::And) {
    for (const shape::Operand& part : condition->operands) assert_true(part.of);
    return;
  }
  if (!capture_.shapes.assumptions.is_unbacked(condition)) {
    if (!capture_.shapes.decide(condition, capture_.position()))
      cannot(Reason::OperatorFailed, of_torch::spelled(of_torch::Check));
    return;
  }
  if (graph_ != &root_) cannot(Reason::BodyUnsupported, "an assertion about a data-dependent value in a body");
  graph::Node* node = this->node(condition);
  if (!node) return;  // implied by known conditions
  assert_node(node, "Runtime assertion failed for expression " + capture_.shapes.print(condition));
  data_.assume(condition);
  capture_.shapes.assume(condition);
}

bool Scope::assert_true(Number* number) {
  if (!is_data(number)) return false;
  if (graph_ != &root_) cannot(Reason::BodyUnsupported, "an assertion about a data-dependent value in a body");
  assert_node(node(number), "Runtime assertion failed");
  return true;
}

bool Scope::may_assert() {
  return graph_ == &root_ && !modes_.in_level() && writes_.may_assert(capture_.contract.locates);
}

bool Scope::assert_true(Tensor* tensor, bool holds, Value* text) {
  PyObject* const check = of_torch::object(of_torch::AssertAsync);
  PyObject* const invert = once([] { return imported("torch", "logical_not").release(); });
  const std::vector<shape::SymInt>& sizes = tensor->record->sizes;
  const bool single = std::ranges::all_of(sizes, [](shape::SymInt size) { return size.number() == 1; });
  const bool handled = capture_.inliner->handles(true);
  if (!single || (handled && capture_.contract.breaks) || !may_assert()) return false;
  Value* condition = tensor;
  if (!holds) condition = emit(invert, Args{&condition, 1, nullptr, 0});
  if (handled)  // gramme._handover recognises the text then, as the program continues
    text = capture_.constant(take(PyUnicode_FromFormat("Runtime assertion failed: %U", text->object)));
  Value* given[] = {condition, text};
  emit(check, Args{given, 2, nullptr, 0});
  return true;
}

}  // namespace gramme::trace
