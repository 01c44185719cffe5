// + and * of sequences, set operators, | of dicts and types, and the in-place forms.
#include "protocol/combine.h"

#include "base/once.h"
#include "base/type_dict.h"
#include "protocol/number.h"
#include "protocol/operator_table.h"
#include "protocol/set_algebra.h"
#include "protocol/special.h"

namespace gramme::protocol {

using namespace value;

namespace {

constexpr size_t kLargest = 1'000'000;  // items; larger results are made for real

std::vector<Value*>* items_field(Value* seen) {
  if (auto* list = as<List>(seen)) return &list->items();
  if (auto* tuple = as<Tuple>(seen)) return &tuple->items;
  if (auto* deque = as<Deque>(seen)) return &deque->items;
  return nullptr;
}

/// A new sequence of the model's kind; torch.Size stays a torch.Size, other tuple types become tuples.
Value* like(Trace& trace, Value* model, std::vector<Value*> items) {
  if (model->kind == Kind::List) return trace.list(std::move(items));
  if (auto* deque = as<Deque>(model)) {
    auto* result = trace.make<Deque>();
    result->items = std::move(items);
    result->maxlen = deque->maxlen;
    trim(result);
    return result;
  }
  Tuple* result = trace.tuple(std::move(items));
  if (!is_size(type_of(model))) return result;
  for (Value* item : result->items) {
    item = trace.see(item);
    if (!is_int(item) && item->kind != Kind::Number)
      cannot(Reason::ArgumentKind, "a torch.Size with an item of type " + type_name(item));
  }
  result->type = type_of(model);
  return result;
}

// ---- concatenation and repetition

[[noreturn]] void cannot_concatenate(Trace& trace, Value* left, const std::string& other) {
  if (is_size(type_of(left)))
    raise(trace, PyExc_TypeError, "can only concatenate tuple (not " + other + ") to torch.Size");
  if (is_constant_of(left, &PyBytes_Type)) raise(trace, PyExc_TypeError, "can't concat " + other + " to bytes");
  std::string name = left->kind == Kind::Tuple ? "tuple" : left->kind == Kind::Deque ? "deque" : type_name(left);
  raise(trace, PyExc_TypeError, "can only concatenate " + name + " (not \"" + other + "\") to " + name);
}

/// True for a tuple that CPython gives back itself where the result would equal it.
bool is_own_result(Value* seen) { return seen->kind == Kind::Tuple && type_of(seen) == &PyTuple_Type; }

Value* add(Trace& trace, int op, const Operands& operands) {
  auto [left, right] = std::pair(operands.left, operands.right);
  if (is_in_place(op) && (left->kind == Kind::List || left->kind == Kind::Deque)) {
    extend(trace, left, right);
    return left;
  }
  if (is_constant_of(left, &PyUnicode_Type) || is_constant_of(left, &PyBytes_Type))
    cannot_concatenate(trace, left, operands.right_name);
  std::vector<Value*>* first = items_field(left);
  if (!first) return nullptr;
  if (left->kind != right->kind) cannot_concatenate(trace, left, operands.right_name);
  const std::vector<Value*>& second = *items_field(right);
  if (first->empty() && is_own_result(right) && !is_size(type_of(left))) return right;
  if (second.empty() && is_own_result(left) && !is_size(type_of(right))) return left;
  std::vector<Value*> items = *first;
  items.insert(items.end(), second.begin(), second.end());
  Value* model = is_size(type_of(right)) ? right : left;  // a Size on either side makes a Size
  return like(trace, model, std::move(items));
}

bool is_repeatable(Value* seen) {
  return items_field(seen) || is_constant_of(seen, &PyUnicode_Type) || is_constant_of(seen, &PyBytes_Type);
}

Value* multiply(Trace& trace, int op, const Operands& operands) {
  auto [left, right] = std::pair(operands.left, operands.right);
  Value* sequence = is_repeatable(left) ? left : is_repeatable(right) ? right : nullptr;
  bool refused = is_in_place(op) && sequence != left && type_of(left)->tp_as_sequence;  // as PyNumber_InPlaceMultiply
  if (!sequence || refused) return nullptr;
  Value* factor = sequence == left ? right : left;
  if (!has_index(trace, factor)) {
    const std::string& name = sequence == left ? operands.right_name : operands.left_name;
    raise(trace, PyExc_TypeError, "can't multiply sequence by non-int of type '" + name + "'");
  }
  Py_ssize_t times = std::max<Py_ssize_t>(index(trace, factor), 0);
  if (sequence->kind == Kind::Constant) return binary(trace, NB_MULTIPLY, sequence, trace.integer(times));
  const std::vector<Value*>& once = *items_field(sequence);
  if (once.size() * static_cast<size_t>(times) > kLargest) cannot(Reason::Budget, "a very long sequence");
  if (times == 1 && is_own_result(sequence)) return sequence;
  std::vector<Value*> items;
  for (Py_ssize_t i = 0; i < times; ++i) items.insert(items.end(), once.begin(), once.end());
  bool changes = is_in_place(op) && sequence == left && (left->kind == Kind::List || left->kind == Kind::Deque);
  if (!changes) return like(trace, sequence, std::move(items));
  trace.will_change(left);
  items_field(left)->assign(items.begin(), items.end());  // keeps its capacity: see list.sort
  if (auto* deque = as<Deque>(left)) trim(deque);
  return left;
}

// ---- sets

bool is_set_like(Value* seen) {
  auto* view = as<View>(seen);
  return seen->kind == Kind::Set || (view && view->which != View::Values);
}

Value* combine_sets(Trace& trace, int op, Value* left, Value* right) {
  bool views = left->kind == Kind::View || right->kind == Kind::View;
  if (!is_set_like(left) && !is_set_like(right)) return nullptr;
  if (!views && !(is_set_like(left) && is_set_like(right))) return nullptr;
  return combine_by_operator(trace, op, left, right);
}

// ---- dicts

Value* merge(Trace& trace, int op, const Operands& operands) {
  auto [left, right] = std::pair(operands.left, operands.right);
  if (left->kind != Kind::Dict) {
    if (left->kind != Kind::InstanceDict) return nullptr;
    if (is_in_place(op)) cannot(Reason::MutationUnsupported, "|= on an instance's __dict__");
  }
  bool mapping = right->kind == Kind::Dict || right->kind == Kind::InstanceDict;
  auto* dict = as<Dict>(left);
  if (is_in_place(op)) {
    PyObject* const from_pairs = once([] { return PyDict_GetItemString(type_dict(&PyDict_Type), "update"); });
    if (!update(trace, dict, right)) call(trace, trace.pinned(from_pairs), {dict, right});
    return dict;
  }
  if (!mapping) return nullptr;
  Dict* result = trace.dict();
  auto* other = as<Dict>(right);
  auto* model = other && operands.left_name == "dict" ? other : dict;  // the subclass's operator applies
  if (model) {
    result->type = model->type;
    result->factory = model->factory;
  }
  update(trace, result, left);
  update(trace, result, right);
  return result;
}

/// `int | None`, a union of types.
Value* type_union(Trace& trace, int op, Value* left, Value* right) {
  auto is_part = [](Value* v) {
    return v->kind == Kind::Class ||
           (v->kind == Kind::Constant && (v->object == Py_None || !PyNumber_Check(v->object)));
  };
  if (!(left->kind == Kind::Class || right->kind == Kind::Class) || !is_part(left) || !is_part(right)) return nullptr;
  auto* function = is_in_place(op) ? PyNumber_InPlaceOr : PyNumber_Or;
  return folded(trace, function(left->object, right->object));
}

}  // namespace

void trim(Deque* deque, bool from_left) {
  if (deque->maxlen < 0) return;
  auto& items = deque->items;
  while (items.size() > static_cast<size_t>(deque->maxlen)) items.erase(from_left ? items.begin() : items.end() - 1);
}

void extend(Trace& trace, Value* sequence, Value* iterable) {
  iterable = trace.see(iterable);
  auto* list = as<List>(sequence);
  std::vector<Value*>& items = list ? list->own_items : *items_field(sequence);  // its length need not be known
  auto* deque = as<Deque>(sequence);
  bool simple = !has_own_class(iterable) &&
                (iterable->kind == Kind::List || iterable->kind == Kind::Tuple || iterable->kind == Kind::Deque);
  if (simple) {
    std::vector<Value*> copy = *items_field(iterable);  // may be the sequence itself
    trace.will_change(sequence);
    items.insert(items.end(), copy.begin(), copy.end());
    if (deque) trim(deque);
    return;
  }
  Value* iterator = get_iterator(trace, iterable);
  if (!deque) length_hint(trace, iterable);
  trace.will_change(sequence);
  while (Value* item = next(trace, iterator)) {
    items.push_back(item);
    if (deque) trim(deque);
  }
}

bool update(Trace& trace, Dict* dict, Value* other) {
  std::vector<std::pair<Value*, Value*>> entries;
  if (!mapping_entries(trace, builtin_part(trace.see(other)), entries)) return false;
  for (auto& [key, value] : entries) trace.dict_set(dict, key, value);
  return true;
}

Value* combine(Trace& trace, int op, const Operands& operands) {
  auto [left, right] = std::pair(operands.left, operands.right);
  switch (plain_operator(op)) {
    case NB_ADD:
      return add(trace, op, operands);
    case NB_MULTIPLY:
      return multiply(trace, op, operands);
    case NB_OR:
      if (Value* result = merge(trace, op, operands)) return result;
      if (Value* result = type_union(trace, op, left, right)) return result;
      [[fallthrough]];
    case NB_AND:
    case NB_SUBTRACT:
    case NB_XOR:
      return combine_sets(trace, op, left, right);
    default:
      return nullptr;
  }
}

}  // namespace gramme::protocol
