// list and tuple: constructors, methods, and sorting; slot wrappers that all builtin containers share.
#include <opcode.h>

#include "base/once.h"
#include "builtins/python_support.h"
#include "protocol/combine.h"

namespace gramme::builtins {
namespace {

using value::Kind;
using value::List;
using value::Tuple;

// ---- making

Value* make_list(Trace& trace, const Args& args) {
  auto [iterable] = positional<1>(args, 0);
  return trace.list(iterable ? protocol::items_of(trace, iterable) : std::vector<Value*>());
}

/// tuple(t) of an exact tuple is that tuple.
Value* make_tuple(Trace& trace, const Args& args) {
  auto [iterable] = positional<1>(args, 0);
  if (!iterable) return trace.tuple({});
  auto* same = trace.see_as<Tuple>(iterable);
  return same && same->type == &PyTuple_Type ? same : trace.tuple(protocol::items_of(trace, iterable));
}

Value* init_list(Trace& trace, const Args& args) {
  auto [self, iterable] = positional<2>(args, 1);
  List* list = changing_list(trace, self);
  list->items().clear();
  if (iterable) protocol::extend(trace, list, iterable);
  return trace.none();
}

// ---- list methods

Value* list_append(Trace& trace, const Args& args) {
  auto [self, item] = positional<2>(args, 2);
  changing_list(trace, self)->own_items.push_back(item);
  return trace.none();
}

Value* list_extend(Trace& trace, const Args& args) {
  auto [self, iterable] = positional<2>(args, 2);
  protocol::extend(trace, content<List>(trace, self), iterable);
  return trace.none();
}

Value* list_insert(Trace& trace, const Args& args) {
  auto [self, where, item] = positional<3>(args, 3);
  Py_ssize_t at = protocol::index(trace, where);
  auto size = static_cast<Py_ssize_t>(content<List>(trace, self)->items().size());
  at = std::clamp<Py_ssize_t>(at < 0 ? at + size : at, 0, size);
  List* list = changing_list(trace, self);
  list->items().insert(list->items().begin() + at, item);
  return trace.none();
}

Value* list_pop(Trace& trace, const Args& args) {
  auto [self, where] = positional<2>(args, 1);
  Py_ssize_t at = where ? protocol::index(trace, where) : -1;
  auto size = static_cast<Py_ssize_t>(content<List>(trace, self)->items().size());
  if (size == 0) protocol::raise(trace, PyExc_IndexError, "pop from empty list");
  if (at < 0) at += size;
  if (at < 0 || at >= size) protocol::raise(trace, PyExc_IndexError, "pop index out of range");
  List* list = changing_list(trace, self);
  Value* item = list->items()[at];
  list->items().erase(list->items().begin() + at);
  return item;
}

Value* list_remove(Trace& trace, const Args& args) {
  auto [self, item] = positional<2>(args, 2);
  auto& items = content<List>(trace, self)->items();
  for (size_t i = 0; i < items.size(); ++i) {
    if (!protocol::equal(trace, items[i], item)) continue;
    List* list = changing_list(trace, self);
    if (i < list->items().size()) list->items().erase(list->items().begin() + static_cast<Py_ssize_t>(i));
    return trace.none();
  }
  protocol::raise(trace, PyExc_ValueError, "list.remove(x): x not in list");
}

Value* list_clear(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  changing_list(trace, self)->items().clear();
  return trace.none();
}

Value* list_reverse(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  List* list = changing_list(trace, self);
  std::reverse(list->items().begin(), list->items().end());
  return trace.none();
}

Value* list_copy(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  return trace.list(content<List>(trace, self)->items());
}

/// The list is empty while it is sorted. What others put into it is lost, and what a failing comparison leaves is kept.
Value* list_sort(Trace& trace, const Args& args) {
  auto [self, key, reverse] = bind(args, 1, {"", "key", "reverse"});
  bool backwards = reverse_flag(trace, reverse);
  List* list = changing_list(trace, self);
  std::vector<Value*> items = std::move(list->items());
  list->items().clear();
  try {
    sort_values(trace, items, key, backwards);
  } catch (const value::UserError&) {
    list->items() = std::move(items);
    throw;
  }
  bool modified = !list->items().empty();
  list->items() = std::move(items);
  if (modified) protocol::raise(trace, PyExc_ValueError, "list modified during sort");
  return trace.none();
}

// ---- list and tuple

const std::vector<Value*>& items(List* list) { return list->items(); }
const std::vector<Value*>& items(Tuple* tuple) { return tuple->items; }

template <class T>
Value* sequence_count(Trace& trace, const Args& args) {
  auto [self, item] = positional<2>(args, 2);
  auto* sequence = content<T>(trace, self);
  int64_t count = 0;
  for (size_t i = 0; i < items(sequence).size(); ++i) count += protocol::equal(trace, items(sequence)[i], item);
  return trace.integer(count);
}

std::string not_in(Trace& trace, List*, Value* item) {
  PyObject* shown = trace.constant_of(protocol::to_repr(trace, item));
  if (!shown) cannot(Reason::ArgumentKind, "the message of list.index");
  return std::string(PyUnicode_AsUTF8(shown)) + " is not in list";
}
std::string not_in(Trace&, Tuple*, Value*) { return "tuple.index(x): x not in tuple"; }

template <class T>
Value* sequence_index(Trace& trace, const Args& args) {
  auto [self, item, start, stop] = positional<4>(args, 2);
  auto* sequence = content<T>(trace, self);
  auto [from, to] = clamp(trace, start, stop, static_cast<Py_ssize_t>(items(sequence).size()));
  for (Py_ssize_t i = from; i < std::min(to, static_cast<Py_ssize_t>(items(sequence).size())); ++i)
    if (protocol::equal(trace, items(sequence)[i], item)) return trace.integer(i);
  protocol::raise(trace, PyExc_ValueError, not_in(trace, sequence, item));
}

// ---- slot wrappers: super().__getitem__(…) and the like, on what an instance of a subclass holds

/// The builtin behind an instance of a subclass; the value itself otherwise.
Value* held(Trace& trace, Value* self) {
  Value* seen = trace.see(self);
  auto* object = value::as<value::Object>(seen);
  Value* inside = object ? payload(trace, object) : seen;
  if (!inside) cannot(Reason::ArgumentKind, "a slot of a builtin called on another class");
  if (object && inside->kind == Kind::Deque) cannot(Reason::ArgumentKind, "a slot of deque called on a subclass");
  return inside;
}

Value* slot_len(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  return trace.integer(protocol::length(trace, held(trace, self)));
}
Value* slot_iter(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  return protocol::get_iterator(trace, held(trace, self));
}
Value* slot_reversed(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  return protocol::reversed(trace, held(trace, self));
}
Value* slot_contains(Trace& trace, const Args& args) {
  auto [self, item] = positional<2>(args, 2);
  return protocol::contains(trace, held(trace, self), item);
}
Value* slot_get(Trace& trace, const Args& args) {
  auto [self, key] = positional<2>(args, 2);
  return protocol::get_item(trace, held(trace, self), key);
}
Value* slot_set(Trace& trace, const Args& args) {
  auto [self, key, item] = positional<3>(args, 3);
  protocol::set_item(trace, held(trace, self), key, item);
  return trace.none();
}
Value* slot_delete(Trace& trace, const Args& args) {
  auto [self, key] = positional<2>(args, 2);
  protocol::delete_item(trace, held(trace, self), key);
  return trace.none();
}
Value* slot_repr(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  return protocol::to_repr(trace, held(trace, self));
}

/// NotImplemented where the other operand is nothing the builtin knows, as the C slot says.
template <int op>
Value* slot_compare(Trace& trace, const Args& args) {
  auto [self, other] = positional<2>(args, 2);
  Value *left = held(trace, self), *right = trace.see(other);
  if (auto* object = value::as<value::Object>(right)) right = payload(trace, object);
  if (!right) return trace.constant(Py_NotImplemented);
  if (left->kind != right->kind) return trace.constant(Py_NotImplemented);
  return protocol::compare(trace, op, left, right);
}

template <int op>
Value* slot_binary(Trace& trace, const Args& args) {
  auto [self, other] = positional<2>(args, 2);
  Value *left = held(trace, self), *right = held(trace, other);
  if (op != NB_MULTIPLY && left->kind != right->kind) return trace.constant(Py_NotImplemented);
  return protocol::binary(trace, op, left, right);
}

/// In place, and the instance itself is the result.
template <int op>
Value* slot_in_place(Trace& trace, const Args& args) {
  auto [self, other] = positional<2>(args, 2);
  Value* left = held(trace, self);
  if (left->kind == Kind::Set && held(trace, other)->kind != Kind::Set) return trace.constant(Py_NotImplemented);
  if (op == NB_INPLACE_ADD && left->kind == Kind::List)
    protocol::extend(trace, left, other);
  else
    protocol::binary(trace, op, left, other);
  return trace.see(self);
}

/// Types without the method skip the row.
void register_slots() {
  PyObject* const deque = once([] { return real("collections", "deque"); });
  auto* deque_type = reinterpret_cast<PyTypeObject*>(deque);
  for (PyTypeObject* type :
       {&PyList_Type, &PyTuple_Type, &PySet_Type, &PyFrozenSet_Type, &PyDict_Type, &PyODict_Type, &PyDictProxy_Type,
        &PyRange_Type, deque_type, &PyDictKeys_Type, &PyDictItems_Type, &PyDictValues_Type})
    add_rows(type, Takes::Asked,
             {
                 {"__len__", &slot_len},
                 {"__iter__", &slot_iter},
                 {"__reversed__", &slot_reversed},
                 {"__repr__", &slot_repr},
                 {"__eq__", &slot_compare<Py_EQ>},
                 {"__ne__", &slot_compare<Py_NE>},
                 {"__lt__", &slot_compare<Py_LT>},
                 {"__le__", &slot_compare<Py_LE>},
                 {"__gt__", &slot_compare<Py_GT>},
                 {"__ge__", &slot_compare<Py_GE>},
             });
  for (PyTypeObject* type : {&PySet_Type, &PyFrozenSet_Type, &PyDictKeys_Type, &PyDictItems_Type})
    add_rows(type, Takes::Asked,
             {
                 {"__contains__", &slot_contains},
                 {"__or__", &slot_binary<NB_OR>},
                 {"__and__", &slot_binary<NB_AND>},
                 {"__xor__", &slot_binary<NB_XOR>},
                 {"__sub__", &slot_binary<NB_SUBTRACT>},
                 {"__ior__", &slot_in_place<NB_INPLACE_OR>},
                 {"__iand__", &slot_in_place<NB_INPLACE_AND>},
                 {"__ixor__", &slot_in_place<NB_INPLACE_XOR>},
                 {"__isub__", &slot_in_place<NB_INPLACE_SUBTRACT>},
             });
  for (PyTypeObject* type : {&PyList_Type, &PyTuple_Type, &PyRange_Type, deque_type})
    add_rows(type, Takes::Asked,
             {
                 {"__contains__", &slot_contains},
                 {"__getitem__", &slot_get},
                 {"__setitem__", &slot_set},
                 {"__delitem__", &slot_delete},
                 {"__add__", &slot_binary<NB_ADD>},
                 {"__mul__", &slot_binary<NB_MULTIPLY>},
                 {"__rmul__", &slot_binary<NB_MULTIPLY>},
                 {"__iadd__", &slot_in_place<NB_INPLACE_ADD>},
                 {"__imul__", &slot_in_place<NB_INPLACE_MULTIPLY>},
             });
}

// ---- sorting

using Keyed = std::vector<std::pair<Value*, Value*>>;  // key, item

/// The order Python's own sort gives to constant keys; false if some key is none.
bool sort_constants(Trace& trace, Keyed& keyed, bool reverse) {
  PyObject* const real_sorted = once([] { return real("builtins", "sorted"); });
  Owned<> keys = take(PyList_New(0)), order = take(PyList_New(0));
  for (size_t i = 0; i < keyed.size(); ++i) {
    Owned<> key = inert(trace, keyed[i].first);
    if (!key) return false;
    check(PyList_Append(keys.get(), key.get()));
    check(PyList_Append(order.get(), take(PyLong_FromSize_t(i)).get()));
  }
  Owned<> by_key = take(PyObject_GetAttrString(keys.get(), "__getitem__"));
  Owned<> names = take(Py_BuildValue("{sOsO}", "key", by_key.get(), "reverse", reverse ? Py_True : Py_False));
  Owned<> values = take(PyTuple_Pack(1, order.get()));
  PyObject* sorted = PyObject_Call(real_sorted, values.get(), names.get());
  if (!sorted) {  // compared one by one, it raises where it must and leaves the order it had then
    PyErr_Clear();
    return false;
  }
  Owned<> result = Owned<>::steal(sorted);
  Keyed before = keyed;
  for (size_t i = 0; i < keyed.size(); ++i) keyed[i] = before[PyLong_AsSize_t(PyList_GET_ITEM(sorted, i))];
  return true;
}

/// The same comparisons in the same order as list.sort makes on fewer than 64 items: the run the list starts with, then
/// binary insertion.
void sort_few(Trace& trace, Keyed& keyed) {
  size_t size = keyed.size();
  auto less = [&](const auto& a, const auto& b) {
    return protocol::truth(trace, protocol::compare(trace, Py_LT, a.first, b.first));
  };
  if (size < 2) return;
  size_t sorted = 2;
  bool descending = less(keyed[1], keyed[0]);
  while (sorted < size && less(keyed[sorted], keyed[sorted - 1]) == descending) ++sorted;
  if (descending) std::reverse(keyed.begin(), keyed.begin() + static_cast<Py_ssize_t>(sorted));
  for (; sorted < size; ++sorted) {
    auto pivot = keyed[sorted];
    size_t low = 0, high = sorted;
    while (low < high) {
      size_t middle = low + (high - low) / 2;
      if (less(pivot, keyed[middle]))
        high = middle;
      else
        low = middle + 1;
    }
    for (size_t i = sorted; i > low; --i) keyed[i] = keyed[i - 1];
    keyed[low] = pivot;
  }
}

}  // namespace

bool reverse_flag(Trace& trace, Value* reverse) {
  if (!reverse) return false;
  Value* seen = trace.see(reverse);
  bool whole = seen->kind == Kind::Constant && PyLong_Check(seen->object);
  if (!whole && seen->kind != Kind::Number) cannot(Reason::ArgumentKind, "sorting with a reverse that is no int");
  return protocol::truth(trace, seen);
}

void sort_values(Trace& trace, std::vector<Value*>& items, Value* key, bool reverse) {
  if (is_none(trace, key)) key = nullptr;
  Keyed keyed;
  for (Value* item : items) keyed.emplace_back(key ? protocol::call(trace, key, {item}) : item, item);
  auto put_back = [&] {
    if (reverse) std::reverse(keyed.begin(), keyed.end());
    for (size_t i = 0; i < items.size(); ++i) items[i] = keyed[i].second;
  };
  if (sort_constants(trace, keyed, reverse)) {
    reverse = false;
    return put_back();
  }
  if (items.size() >= 64) cannot(Reason::OpaqueCallback, "sorting 64 or more items that compare themselves");
  if (reverse) std::reverse(keyed.begin(), keyed.end());  // and back at the end: equal items keep their order
  try {
    sort_few(trace, keyed);
  } catch (const value::UserError&) {
    put_back();
    throw;
  }
  put_back();
}

void register_list() {
  add_rows("builtins", Takes::Asked,
           {
               {"list", &make_list},
               {"list.__init__", &init_list},
               {"list.append", &list_append},
               {"list.extend", &list_extend},
               {"list.insert", &list_insert},
               {"list.pop", &list_pop},
               {"list.remove", &list_remove},
               {"list.clear", &list_clear},
               {"list.reverse", &list_reverse},
               {"list.copy", &list_copy},
               {"list.sort", &list_sort},
               {"list.count", &sequence_count<List>},
               {"list.index", &sequence_index<List>},
               {"tuple", &make_tuple},
               {"tuple.count", &sequence_count<Tuple>},
               {"tuple.index", &sequence_index<Tuple>},
           });
  register_slots();
}

}  // namespace gramme::builtins
