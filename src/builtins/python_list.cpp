// list and tuple: constructors and methods.
#include "base/text.h"
#include "builtins/python_support.h"
#include "protocol/combine.h"
#include "protocol/texts.h"

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

/// tuple(x); an exact tuple is returned itself.
Value* make_tuple(Trace& trace, const Args& args) {
  auto [iterable] = positional<1>(args, 0);
  if (!iterable) return trace.tuple({});
  auto* same = trace.see_as<Tuple>(iterable);
  return same && same->type == &PyTuple_Type ? same : trace.tuple(protocol::items_of_tuple(trace, iterable));
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
  if (List* grown = content<List>(trace, self); grown->unread && at == -1 && !grown->own_items.empty()) {
    Value* last = changing_list(trace, self)->own_items.back();
    grown->own_items.pop_back();
    return last;
  }
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

/// list.sort: the list is empty meanwhile. Items put into it by others are lost, and the order at a failing comparison
/// is kept. CPython detects changes by the list's allocation; the vector's capacity serves for that here, so no
/// operation may shrink it.
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
  const bool modified = list->items().capacity() > 0;
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

[[noreturn]] void not_in(Trace& trace, List*, Value* item) { protocol::raise_not_in(trace, "index", "list", item); }
[[noreturn]] void not_in(Trace& trace, Tuple*, Value*) {
  protocol::raise(trace, PyExc_ValueError, "tuple.index(x): x not in tuple");
}

template <class T>
Value* sequence_index(Trace& trace, const Args& args) {
  auto [self, item, start, stop] = positional<4>(args, 2);
  auto* sequence = content<T>(trace, self);
  auto [from, to] = clamp(trace, start, stop, static_cast<Py_ssize_t>(items(sequence).size()));
  for (Py_ssize_t i = from; i < std::min(to, static_cast<Py_ssize_t>(items(sequence).size())); ++i)
    if (protocol::equal(trace, items(sequence)[i], item)) return trace.integer(i);
  not_in(trace, sequence, item);
}

}  // namespace

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
}

}  // namespace gramme::builtins
