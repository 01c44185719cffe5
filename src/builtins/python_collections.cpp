// collections: deque, and Counter's counting loop. OrderedDict and defaultdict are in python_dict.cpp.
#include <opcode.h>

#include "base/once.h"
#include "base/text.h"
#include "builtins/python_mapping.h"
#include "protocol/combine.h"
#include "protocol/texts.h"

namespace gramme::builtins {
namespace {

using value::Deque;

Value* make_deque(Trace& trace, const Args& args) {
  auto [iterable, maxlen] = bind(args, 0, {"iterable", "maxlen"});
  auto* deque = trace.make<Deque>();
  if (!is_none(trace, maxlen)) {
    if (trace.see(maxlen)->kind == value::Kind::Object) cannot(Reason::ArgumentKind, "a maxlen that is not an int");
    deque->maxlen = protocol::index(trace, maxlen);
    if (deque->maxlen < 0) protocol::raise(trace, PyExc_ValueError, "maxlen must be non-negative");
  }
  if (iterable) protocol::extend(trace, deque, iterable);
  return deque;
}

bool is_full(Deque* deque) { return deque->maxlen >= 0 && deque->items.size() >= static_cast<size_t>(deque->maxlen); }

void push_left(Deque* deque, Value* item) {
  if (deque->maxlen == 0) return;
  if (is_full(deque)) deque->items.pop_back();
  deque->items.insert(deque->items.begin(), item);
}

void push_right(Deque* deque, Value* item) {
  if (deque->maxlen == 0) return;
  if (is_full(deque)) deque->items.erase(deque->items.begin());
  deque->items.push_back(item);
}

template <void (*push)(Deque*, Value*)>
Value* append(Trace& trace, const Args& args) {
  auto [self, item] = positional<2>(args, 2);
  push(changing_deque(trace, self), item);
  return trace.none();
}

Value* extend(Trace& trace, const Args& args) {
  auto [self, iterable] = positional<2>(args, 2);
  protocol::extend(trace, content<Deque>(trace, self), iterable);
  return trace.none();
}

Value* extend_left(Trace& trace, const Args& args) {
  auto [self, iterable] = positional<2>(args, 2);
  Deque* deque = content<Deque>(trace, self);
  bool itself = trace.see(iterable) == deque;
  Value* iterator = protocol::get_iterator(trace, itself ? trace.list(deque->items) : iterable);
  trace.will_change(deque);
  while (Value* item = protocol::next(trace, iterator)) push_left(deque, item);
  return trace.none();
}

template <bool left>
Value* pop(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  Deque* deque = content<Deque>(trace, self);
  if (deque->items.empty()) protocol::raise(trace, PyExc_IndexError, "pop from an empty deque");
  changing_deque(trace, self);
  auto at = left ? deque->items.begin() : deque->items.end() - 1;
  Value* item = *at;
  deque->items.erase(at);
  return item;
}

Value* clear(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  changing_deque(trace, self)->items.clear();
  return trace.none();
}

Value* copy(Trace& trace, const Args& args) {
  if (args.positional && trace.see(args[0])->kind == value::Kind::Object)
    cannot(Reason::ArgumentKind, "a copy of a deque's subclass");
  auto [self] = positional<1>(args, 1);
  auto* result = trace.make<Deque>();
  result->items = content<Deque>(trace, self)->items;
  result->maxlen = content<Deque>(trace, self)->maxlen;
  return result;
}

Value* reverse(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  Deque* deque = changing_deque(trace, self);
  std::reverse(deque->items.begin(), deque->items.end());
  return trace.none();
}

/// To the right; negative to the left.
Value* rotate(Trace& trace, const Args& args) {
  auto [self, steps] = positional<2>(args, 1);
  Py_ssize_t by = steps ? protocol::index(trace, steps) : 1;
  Deque* deque = changing_deque(trace, self);
  auto size = static_cast<Py_ssize_t>(deque->items.size());
  if (size == 0) return trace.none();
  Py_ssize_t first = ((-by) % size + size) % size;
  std::rotate(deque->items.begin(), deque->items.begin() + first, deque->items.end());
  return trace.none();
}

Value* insert(Trace& trace, const Args& args) {
  auto [self, where, item] = positional<3>(args, 3);
  Py_ssize_t at = protocol::index(trace, where);
  if (is_full(content<Deque>(trace, self)))
    protocol::raise(trace, PyExc_IndexError, "deque already at its maximum size");
  Deque* deque = changing_deque(trace, self);
  auto size = static_cast<Py_ssize_t>(deque->items.size());
  deque->items.insert(deque->items.begin() + std::clamp<Py_ssize_t>(at < 0 ? at + size : at, 0, size), item);
  return trace.none();
}

Value* remove(Trace& trace, const Args& args) {
  auto [self, item] = positional<2>(args, 2);
  Deque* deque = content<Deque>(trace, self);
  for (size_t i = 0; i < deque->items.size(); ++i) {
    if (!protocol::equal(trace, deque->items[i], item)) continue;
    trace.will_change(deque);
    deque->items.erase(deque->items.begin() + static_cast<Py_ssize_t>(i));
    return trace.none();
  }
  protocol::raise_not_in(trace, "remove", "deque", item);
}

Value* count(Trace& trace, const Args& args) {
  auto [self, item] = positional<2>(args, 2);
  int64_t found = 0;
  for (Value* other : protocol::items_of(trace, content<Deque>(trace, self)))
    found += protocol::equal(trace, other, item);
  return trace.integer(found);
}

Value* index(Trace& trace, const Args& args) {
  auto [self, item, start, stop] = positional<4>(args, 2);
  std::vector<Value*> items = protocol::items_of(trace, content<Deque>(trace, self));
  auto [from, to] = clamp(trace, start, stop, static_cast<Py_ssize_t>(items.size()));
  for (Py_ssize_t i = from; i < to; ++i)
    if (protocol::equal(trace, items[i], item)) return trace.integer(i);
  protocol::raise_not_in(trace, "index", "deque", item);
}

/// collections._count_elements: adds one for each element.
Value* count_elements(Trace& trace, const Args& args) {
  auto [mapping, iterable] = positional<2>(args, 2);
  Mapping counts = Mapping::self(trace, mapping);
  Value* iterator = protocol::get_iterator(trace, iterable);
  Value* one = trace.integer(1);
  while (Value* key = protocol::next(trace, iterator)) {
    Value* known = counts.get(key);
    counts.set(key, known ? protocol::binary(trace, NB_ADD, known, one) : one);
  }
  return trace.none();
}

}  // namespace

void register_collections() {
  add_rows("collections", Takes::Asked,
           {
               {"deque", &make_deque},
               {"deque.append", &append<&push_right>},
               {"deque.appendleft", &append<&push_left>},
               {"deque.extend", &extend},
               {"deque.extendleft", &extend_left},
               {"deque.pop", &pop<false>},
               {"deque.popleft", &pop<true>},
               {"deque.clear", &clear},
               {"deque.copy", &copy},
               {"deque.__copy__", &copy},
               {"deque.reverse", &reverse},
               {"deque.rotate", &rotate},
               {"deque.insert", &insert},
               {"deque.remove", &remove},
               {"deque.count", &count},
               {"deque.index", &index},
           });
  add_rows("_collections", Takes::Asked, {{"_count_elements", &count_elements}});
}

}  // namespace gramme::builtins
