// Advances iterators: one function for each sort. iterate.h describes the fields they use.
#include "protocol/steps.h"

#include <opcode.h>

#include "base/process.h"
#include "protocol/number.h"
#include "protocol/special.h"

namespace gramme::protocol {

using namespace value;

namespace {

// ---- sequences

const std::vector<Value*>* items_field(Value* seen) {
  if (auto* list = as<List>(seen)) return &list->items();
  if (auto* tuple = as<Tuple>(seen)) return &tuple->items;
  if (auto* deque = as<Deque>(seen)) return &deque->items;
  return nullptr;
}

/// An Object's item by its __getitem__; null at IndexError or StopIteration.
Value* protocol_item(Trace& trace, Value* object, Py_ssize_t at) {
  try {
    return get_item(trace, object, trace.integer(at));
  } catch (const UserError& error) {
    PyTypeObject* raised = type_of(trace.see(error.exception));
    bool ends = PyType_IsSubtype(raised, reinterpret_cast<PyTypeObject*>(PyExc_IndexError)) ||
                PyType_IsSubtype(raised, reinterpret_cast<PyTypeObject*>(PyExc_StopIteration));
    if (!ends) throw;
    return nullptr;
  }
}

Value* item_at(Trace& trace, Value* sequence, Py_ssize_t at) {
  if (const std::vector<Value*>* items = items_field(sequence))
    return at < static_cast<Py_ssize_t>(items->size()) ? (*items)[static_cast<size_t>(at)] : nullptr;
  if (sequence->kind != Kind::Constant) return protocol_item(trace, sequence, at);
  return at < PyObject_Size(sequence->object) ? folded(trace, PySequence_GetItem(sequence->object, at)) : nullptr;
}

void check_deque(Trace& trace, Iterator* iterator) {
  auto* deque = as<Deque>(iterator->parts[0]);
  if (!deque || (deque->items.size() == iterator->expected && deque->moves == iterator->moves)) return;
  if (deque->items.size() == iterator->expected)  // rotate(1) counts as a change, extend([]) does not
    cannot(Reason::MutationUnsupported, "a deque that may have changed while it is iterated");
  iterator->done = true;
  raise(trace, PyExc_RuntimeError, "deque mutated during iteration");
}

Value* next_of_sequence(Trace& trace, Iterator* iterator) {
  check_deque(trace, iterator);
  Value* item = item_at(trace, iterator->parts[0], iterator->index);
  if (!item) return end(iterator);
  ++iterator->index;
  return item;
}

Value* next_of_reversed(Trace& trace, Iterator* iterator) {
  check_deque(trace, iterator);
  Value* item = iterator->index >= 0 ? item_at(trace, iterator->parts[0], iterator->index) : nullptr;
  if (!item) return end(iterator);
  --iterator->index;
  return item;
}

Value* next_of_range(Trace& trace, Iterator* iterator) {
  bool more = iterator->increment > 0 ? iterator->index < iterator->stop : iterator->index > iterator->stop;
  if (!more) return end(iterator);
  Value* result = trace.integer(iterator->index);
  if (__builtin_add_overflow(iterator->index, iterator->increment, &iterator->index)) iterator->index = iterator->stop;
  return result;
}

// ---- over other iterators

Value* next_of_enumerate(Trace& trace, Iterator* iterator) {
  Value* item = next(trace, iterator->parts[0]);
  return item ? trace.tuple({trace.integer(iterator->index++), item}) : nullptr;  // asks again, as map and zip do
}

[[noreturn]] void uneven(Trace& trace, size_t at, const char* how) {
  std::string others = at == 1 ? "argument 1" : "arguments 1-" + std::to_string(at);
  raise(trace, PyExc_ValueError, "zip() argument " + std::to_string(at + 1) + " is " + how + " than " + others);
}

Value* next_of_zip(Trace& trace, Iterator* iterator) {
  bool strict = iterator->stop == 1;
  std::vector<Value*> items;
  for (size_t i = 0; i < iterator->parts.size(); ++i) {
    Value* item = next(trace, iterator->parts[i]);
    if (item) {
      items.push_back(item);
      continue;
    }
    if (strict && i > 0) uneven(trace, i, "shorter");
    for (size_t k = 1; strict && k < iterator->parts.size(); ++k)
      if (next(trace, iterator->parts[k])) uneven(trace, k, "longer");
    return nullptr;
  }
  return items.empty() ? nullptr : trace.tuple(std::move(items));
}

Value* next_of_map(Trace& trace, Iterator* iterator) {
  std::vector<Value*> args;
  for (size_t i = 1; i < iterator->parts.size(); ++i) {
    Value* item = next(trace, iterator->parts[i]);
    if (!item) return nullptr;  // not final: map asks again
    args.push_back(item);
  }
  return call(trace, iterator->parts[0], Args{args.data(), args.size(), nullptr, 0});
}

Value* next_of_starmap(Trace& trace, Iterator* iterator) {
  Value* item = next(trace, iterator->parts[1]);
  if (!item) return nullptr;
  std::vector<Value*> args = items_of_tuple(trace, item);
  return call(trace, iterator->parts[0], Args{args.data(), args.size(), nullptr, 0});
}

bool is_none(Trace& trace, Value* value) { return is_constant_of(trace.see(value), Py_TYPE(Py_None)); }

bool is_bool_type(Trace& trace, Value* value) {
  value = trace.see(value);
  return value->kind == Kind::Class && static_cast<Class*>(value)->type() == &PyBool_Type;
}

Value* next_of_filter(Trace& trace, Iterator* iterator) {
  bool itself = is_none(trace, iterator->parts[0]) || is_bool_type(trace, iterator->parts[0]);
  while (Value* item = next(trace, iterator->parts[1])) {
    bool passes = truth(trace, itself ? item : call(trace, iterator->parts[0], {item}));
    if (passes != (iterator->stop == 1)) return item;
  }
  return nullptr;
}

Value* next_of_chain(Trace& trace, Iterator* iterator) {
  auto& parts = iterator->parts;
  for (;;) {
    if (parts.size() == 1) {
      Value* iterable = next(trace, parts[0]);
      if (!iterable) return end(iterator);
      Value* inner = get_iterator(trace, iterable);
      parts.push_back(inner);
    }
    if (Value* item = next(trace, parts[1])) return item;
    parts.pop_back();
  }
}

Value* next_of_repeat(Trace&, Iterator* iterator) {
  if (iterator->stop == 0) return end(iterator);
  if (iterator->stop > 0) --iterator->stop;
  return iterator->parts[0];
}

Value* next_of_count(Trace& trace, Iterator* iterator) {
  Value* result = iterator->parts[0];
  iterator->parts[0] = binary(trace, NB_ADD, result, iterator->parts[1]);
  return result;
}

/// `expected` is 1 once the source is exhausted; `index` then runs over the saved items.
Value* next_of_cycle(Trace& trace, Iterator* iterator) {
  auto& parts = iterator->parts;
  if (iterator->expected == 0) {
    if (Value* item = next(trace, parts[0])) {
      parts.push_back(item);
      return item;
    }
    iterator->expected = 1;
  }
  Py_ssize_t saved = static_cast<Py_ssize_t>(parts.size()) - 1;
  if (saved == 0) return end(iterator);
  Value* item = parts[static_cast<size_t>(1 + iterator->index)];
  iterator->index = (iterator->index + 1) % saved;
  return item;
}

/// `expected` counts the items taken from the source.
Value* next_of_islice(Trace& trace, Iterator* iterator) {
  Value* source = iterator->parts[0];
  while (static_cast<Py_ssize_t>(iterator->expected) < iterator->index) {
    if (!next(trace, source)) return end(iterator);
    ++iterator->expected;
  }
  bool bounded = iterator->stop >= 0;
  if (bounded && static_cast<Py_ssize_t>(iterator->expected) >= iterator->stop) return end(iterator);
  Value* item = next(trace, source);
  if (!item) return end(iterator);
  ++iterator->expected;
  bool overflow = __builtin_add_overflow(iterator->index, iterator->increment, &iterator->index);
  if (overflow || (bounded && iterator->index > iterator->stop))
    iterator->index = bounded ? iterator->stop : PY_SSIZE_T_MAX;
  return item;
}

Value* next_of_accumulate(Trace& trace, Iterator* iterator) {
  auto& parts = iterator->parts;
  if (iterator->index == 1) {
    iterator->index = 0;
    return parts[2];
  }
  Value* item = next(trace, parts[1]);
  if (!item) return nullptr;
  if (parts.size() == 2) {
    parts.push_back(item);
    return item;
  }
  Value* total =
      is_none(trace, parts[0]) ? binary(trace, NB_ADD, parts[2], item) : call(trace, parts[0], {parts[2], item});
  return parts[2] = total;
}

Value* next_of_takewhile(Trace& trace, Iterator* iterator) {
  Value* item = next(trace, iterator->parts[1]);
  if (!item) return nullptr;
  return truth(trace, call(trace, iterator->parts[0], {item})) ? item : end(iterator);
}

/// `index` is 1 once an item failed the predicate.
Value* next_of_dropwhile(Trace& trace, Iterator* iterator) {
  while (Value* item = next(trace, iterator->parts[1])) {
    if (iterator->index == 1) return item;
    if (truth(trace, call(trace, iterator->parts[0], {item}))) continue;
    iterator->index = 1;
    return item;
  }
  return nullptr;
}

Value* next_of_call_until(Trace& trace, Iterator* iterator) {
  Value* item = nullptr;
  try {
    item = call(trace, iterator->parts[0], {});
  } catch (const UserError& error) {
    if (!PyType_IsSubtype(type_of(trace.see(error.exception)), reinterpret_cast<PyTypeObject*>(PyExc_StopIteration)))
      throw;
    return end(iterator);
  }
  return equal(trace, iterator->parts[1], item) ? end(iterator) : item;
}

struct OwnSort {
  Step step;
  IteratorType type;
};

/// Models hold the places of their steps.
struct State {
  std::vector<OwnSort> own_sorts;  // GIL
};
Lasting<State> state;

OwnSort& own_sort(const Iterator* iterator) { return state->own_sorts.at(static_cast<size_t>(iterator->increment)); }

Value* next_of_other(Trace& trace, Iterator* iterator) {
  Value* item = own_sort(iterator).step(trace, iterator);
  return item ? item : end(iterator);
}

Value* next_of_live(Trace& trace, Iterator* iterator) { return trace.next_of_live(iterator); }

/// By Iterator::Sort.
constexpr Step kSteps[] = {
    next_of_sequence,  next_of_range,     next_of_entries,    next_of_reversed, next_of_enumerate,
    next_of_zip,       next_of_map,       next_of_filter,     next_of_chain,    next_of_repeat,
    next_of_count,     next_of_cycle,     next_of_islice,     next_of_starmap,  next_of_accumulate,
    next_of_takewhile, next_of_dropwhile, next_of_call_until, next_of_other,    next_of_live,
};
static_assert(std::size(kSteps) == Iterator::Live + 1);

}  // namespace

Value* step(Trace& trace, Iterator* iterator) {
  return iterator->done ? nullptr : kSteps[iterator->sort](trace, iterator);
}

Py_ssize_t add_step(Step step, IteratorType type) {
  state->own_sorts.push_back({step, type});
  return static_cast<Py_ssize_t>(state->own_sorts.size()) - 1;
}

PyTypeObject* other_iterator_type(const Iterator* iterator) {
  return iterator->object ? Py_TYPE(iterator->object) : type_of(own_sort(iterator).type);
}

void note_size(Trace& trace, Iterator* iterator) {
  iterator->parts[0] = trace.see(iterator->parts[0]);
  if (auto* deque = as<Deque>(iterator->parts[0])) {
    iterator->expected = deque->items.size();
    iterator->moves = deque->moves;
  }
}

Iterator* range_iterator(Trace& trace, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t step) {
  Iterator* iterator = make_iterator(trace, Iterator::Range, {});
  iterator->index = start;
  iterator->stop = stop;
  iterator->increment = step;
  return iterator;
}

Iterator* range_constant_iterator(Trace& trace, PyObject* range, bool backwards) {
  auto field = [&](const char* name) { return take(PyObject_GetAttrString(range, name)); };
  Py_ssize_t start = PyLong_AsSsize_t(field("start").get()), stop = PyLong_AsSsize_t(field("stop").get()),
             step = PyLong_AsSsize_t(field("step").get()), size = PyObject_Size(range);
  if (PyErr_Occurred()) {
    PyErr_Clear();
    cannot(Reason::ArgumentKind, "a range beyond machine words");
  }
  if (!backwards) return range_iterator(trace, start, stop, step);
  if (size == 0) return range_iterator(trace, 0, 0, 1);
  Py_ssize_t last = start + (size - 1) * step, before = 0;
  if (__builtin_sub_overflow(start, step, &before) || step == PY_SSIZE_T_MIN)
    cannot(Reason::ArgumentKind, "a range beyond machine words");
  return range_iterator(trace, last, before, -step);
}

}  // namespace gramme::protocol
