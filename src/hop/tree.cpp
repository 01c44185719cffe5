// Flattening and rebuilding trees of values, and names for their leaves.
#include "hop/tree.h"

#include <algorithm>

#include "base/once.h"
#include "base/tuple_types.h"

namespace gramme::hop {

using namespace value;
using trace::Trace;

namespace {

/// Names the leaf's node after a variable of torch.utils._pytree, as PyTorch's front end does.
void name(graph::Graph& graph, Value* leaf, PyObject* variable) {
  auto* tensor = as<Tensor>(leaf);
  if (tensor && tensor->node) graph.hint(tensor->node, variable);
}

}  // namespace

Tree::Tree(Trace& trace, Value* root) : root_(part(trace, root)) {}

Tree::Part Tree::part(Trace& trace, Value* value) {
  trace::Capture::Deeper deeper(trace);
  value = trace.see(value);
  Part result{value->kind, nullptr, {}, {}};
  if (auto* tuple = as<Tuple>(value)) {
    const bool named = tuple->type != &PyTuple_Type;
    if (named && !is_named_tuple(reinterpret_cast<PyObject*>(tuple->type)))
      cannot(Reason::BodyUnsupported, std::string("a function that returns a ") + tuple->type->tp_name);
    result.type = tuple->type;
    for (Value* item : tuple->items) result.items.push_back(part(trace, item));
  } else if (auto* list = as<List>(value)) {
    for (Value* item : list->items()) result.items.push_back(part(trace, item));
  } else if (auto* dict = as<Dict>(value)) {
    if (dict->type != &PyDict_Type)
      cannot(Reason::BodyUnsupported, std::string("a function that returns a ") + dict->type->tp_name);
    trace.load(dict);
    dict->entries.each([&](Table::Entry& entry) {
      result.keys.push_back(entry.key);
      result.items.push_back(part(trace, entry.value));
    });
  } else {
    result.kind = Kind::Constant;
    leaves.push_back(value);
  }
  return result;
}

bool Tree::same(const Part& a, const Part& b) {
  auto equal_key = [](Value* a, Value* b) {
    return a == b ||
           (a->kind == Kind::Constant && b->kind == Kind::Constant && Py_TYPE(a->object) == Py_TYPE(b->object) &&
            PyObject_RichCompareBool(a->object, b->object, Py_EQ) == 1);
  };
  return a.kind == b.kind && a.type == b.type && std::ranges::equal(a.keys, b.keys, equal_key) &&
         std::ranges::equal(a.items, b.items, same);
}

Value* Tree::around(Trace& trace, const std::vector<Value*>& leaves) const {
  Value* const* leaf = leaves.data();
  return build(trace, root_, leaf);
}

Value* Tree::build(Trace& trace, const Part& part, Value* const*& leaf) {
  static PyObject* const of_dict = intern("value");
  if (part.kind == Kind::Constant) return *leaf++;
  std::vector<Value*> items;
  for (const Part& item : part.items) {
    items.push_back(build(trace, item, leaf));
    if (part.kind == Kind::Dict && item.kind == Kind::Constant) name(trace.scope().graph(), items.back(), of_dict);
  }
  if (part.kind == Kind::List) return trace.list(std::move(items));
  if (part.kind == Kind::Tuple) {
    Tuple* tuple = trace.tuple(std::move(items));
    tuple->type = part.type;
    return tuple;
  }
  Dict* dict = trace.dict();
  for (size_t i = 0; i < items.size(); ++i) trace.dict_set(dict, part.keys[i], items[i]);
  return dict;
}

void Tree::name_leaves(graph::Graph& graph) const {
  static PyObject* const child = intern("child");
  if (root_.kind == Kind::Constant) return;
  for (Value* leaf : leaves) name(graph, leaf, child);
}

bool is_same(Trace& trace, Value* a, Value* b) {
  a = trace.see(a);
  b = trace.see(b);
  if (a == b) return true;
  auto *left = as<Number>(a), *right = as<Number>(b);
  if (left && right) return left->expr && left->expr == right->expr;
  if (a->kind != Kind::Constant || b->kind != Kind::Constant) return false;
  if (a->object == b->object) return true;
  Owned<> one = take(PyObject_Repr(a->object)), other = take(PyObject_Repr(b->object));  // -0.0 is not 0.0
  return Py_TYPE(a->object) == Py_TYPE(b->object) && PyObject_RichCompareBool(one.get(), other.get(), Py_EQ) == 1;
}

}  // namespace gramme::hop
