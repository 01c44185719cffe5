// itertools: the sorts of protocol/iterate.h, and a few with step functions here.
#include <string_view>

#include "base/once.h"
#include "builtins/python_support.h"

namespace gramme::builtins {
namespace {

using protocol::get_iterator;
using protocol::make_iterator;
using value::Iterator;
using value::IteratorType;
using value::Kind;

/// An iterator of sort Other. `maker` makes a real one from the parts that are not Null; a step may clear it.
Iterator* own_iterator(Trace& trace, Py_ssize_t step, std::vector<Value*> parts, PyObject* maker = nullptr) {
  Iterator* result = make_iterator(trace, Iterator::Other, std::move(parts));
  result->increment = step;
  result->maker = maker;
  return result;
}

// ---- sorts of iterate.h

/// True if PyNumber_Check accepts the value's type.
bool is_number(Trace& trace, Value* value) {
  const PyTypeObject* type = protocol::type_of(trace.see(value));
  const PyNumberMethods* slots = type->tp_as_number;
  return slots && (slots->nb_index || slots->nb_int || slots->nb_float);
}

Value* count(Trace& trace, const Args& args) {
  auto [start, step] = bind(args, 0, {"start", "step"});
  for (Value* number : {start, step})
    if (number && !is_number(trace, number)) cannot(Reason::ArgumentKind, "itertools.count() of anything but numbers");
  return make_iterator(trace, Iterator::Count, {start ? start : trace.integer(0), step ? step : trace.integer(1)});
}

Value* chain(Trace& trace, const Args& args) {
  return make_iterator(trace, Iterator::Chain, {get_iterator(trace, trace.tuple(all_positional(args)))});
}

Value* chain_from_iterable(Trace& trace, const Args& args) {
  auto [cls, iterable] = positional<2>(args, 2);
  return make_iterator(trace, Iterator::Chain, {get_iterator(trace, iterable)});
}

Value* repeat(Trace& trace, const Args& args) {
  auto [object, times] = bind(args, 1, {"object", "times"});
  Iterator* result = make_iterator(trace, Iterator::Repeat, {object});
  result->stop = times ? std::max<Py_ssize_t>(protocol::index(trace, times), 0) : -1;
  return result;
}

Value* cycle(Trace& trace, const Args& args) {
  auto [iterable] = positional<1>(args, 1);
  return make_iterator(trace, Iterator::Cycle, {get_iterator(trace, iterable)});
}

Value* islice(Trace& trace, const Args& args) {
  auto [iterable, first, second, third] = positional<4>(args, 2);
  Iterator* result = make_iterator(trace, Iterator::Islice, {get_iterator(trace, iterable)});
  result->index = second ? index_or(trace, first, 0) : 0;
  result->stop = index_or(trace, second ? second : first, -1);
  result->increment = index_or(trace, third, 1);
  bool negative_stop = result->stop < 0 && !is_none(trace, second ? second : first);
  if (result->index < 0 || negative_stop || result->increment < 1)
    cannot(Reason::ArgumentKind, "islice() of negative bounds");
  return result;
}

template <Iterator::Sort sort>
Value* with_function(Trace& trace, const Args& args) {
  auto [function, iterable] = positional<2>(args, 2);
  return make_iterator(trace, sort, {function, get_iterator(trace, iterable)});
}

Value* filter_false(Trace& trace, const Args& args) {
  auto [function, iterable] = positional<2>(args, 2);
  Iterator* result = make_iterator(trace, Iterator::Filter, {function, get_iterator(trace, iterable)});
  result->stop = 1;
  return result;
}

Value* accumulate(Trace& trace, const Args& args) {
  auto [iterable, function, initial] = bind(args, 1, {"iterable", "func", "initial"});
  std::vector<Value*> parts = {function ? function : trace.none(), get_iterator(trace, iterable)};
  bool given = !is_none(trace, initial);
  if (given) parts.push_back(initial);
  Iterator* result = make_iterator(trace, Iterator::Accumulate, std::move(parts));
  result->index = given;
  return result;
}

// ---- zip_longest: parts are the fill value and the iterators, Null where one is exhausted; stop counts those left

Value* zip_longest_step(Trace& trace, Iterator* iterator) {
  std::vector<Value*> items;
  for (size_t i = 1; i < iterator->parts.size(); ++i) {
    Value*& source = iterator->parts[i];
    Value* item = source->kind == Kind::Null ? nullptr : protocol::next(trace, source);
    if (!item && source->kind != Kind::Null) {
      source = trace.null();
      if (--iterator->stop == 0) return nullptr;
    }
    items.push_back(item ? item : iterator->parts[0]);
  }
  return items.empty() ? nullptr : trace.tuple(std::move(items));
}

Value* zip_longest(Trace& trace, const Args& args) {
  static const Py_ssize_t step = protocol::add_step(&zip_longest_step, IteratorType::ZipLongest);  // no Python: a row
  Value* fill = args.keyword("fillvalue");
  if (args.keywords != (fill ? 1 : 0)) cannot(Reason::ArgumentKind, "an unexpected keyword argument");
  std::vector<Value*> parts = {fill ? fill : trace.none()};
  for (size_t i = 0; i < args.positional; ++i) parts.push_back(get_iterator(trace, args[i]));
  Iterator* result = own_iterator(trace, step, std::move(parts));
  result->stop = static_cast<Py_ssize_t>(args.positional);
  return result;
}

// ---- pairwise: parts are the iterator and the item before, Null at first

Value* pairwise_step(Trace& trace, Iterator* iterator) {
  iterator->maker = nullptr;
  if (iterator->parts[1]->kind == Kind::Null) {
    Value* first = protocol::next(trace, iterator->parts[0]);
    if (!first) return nullptr;
    iterator->parts[1] = first;
  }
  Value* item = protocol::next(trace, iterator->parts[0]);
  return item ? trace.tuple({std::exchange(iterator->parts[1], item), item}) : nullptr;
}

Value* pairwise(Trace& trace, const Args& args) {
  static const Py_ssize_t step = protocol::add_step(&pairwise_step, IteratorType::Pairwise);  // no Python: a row
  PyObject* const maker = once([] { return real("itertools", "pairwise"); });
  auto [iterable] = positional<1>(args, 1);
  return own_iterator(trace, step, {get_iterator(trace, iterable), trace.null()}, maker);
}

// ---- compress: parts are the iterators over data and selectors

Value* compress_step(Trace& trace, Iterator* iterator) {
  while (Value* item = protocol::next(trace, iterator->parts[0])) {
    Value* selector = protocol::next(trace, iterator->parts[1]);
    if (!selector) return nullptr;
    if (protocol::truth(trace, selector)) return item;
  }
  return nullptr;
}

Value* compress(Trace& trace, const Args& args) {
  static const Py_ssize_t step = protocol::add_step(&compress_step, IteratorType::Compress);  // no Python: a row
  PyObject* const maker = once([] { return real("itertools", "compress"); });
  auto [data, selectors] = bind(args, 2, {"data", "selectors"});
  return own_iterator(trace, step, {get_iterator(trace, data), get_iterator(trace, selectors)}, maker);
}

// ---- tee: parts are the iterator and the items read from it so far, which all copies share; index is the next
// position

Value* tee_step(Trace& trace, Iterator* iterator) {
  auto& read = static_cast<value::List*>(iterator->parts[1])->items();
  auto at = static_cast<size_t>(iterator->index);
  if (at == read.size()) {
    Value* item = protocol::next(trace, iterator->parts[0]);
    if (!item) return nullptr;
    read.push_back(item);
  }
  ++iterator->index;
  return read[at];
}

Value* tee(Trace& trace, const Args& args) {
  static const Py_ssize_t step = protocol::add_step(&tee_step, IteratorType::Tee);  // no Python: a row
  auto [iterable, times] = positional<2>(args, 1);
  Value* source = get_iterator(trace, iterable);
  Value* read = trace.list({});
  std::vector<Value*> copies;
  for (Py_ssize_t n = index_or(trace, times, 2); n > 0; --n)
    copies.push_back(own_iterator(trace, step, {source, read}));
  return trace.tuple(std::move(copies));
}

// ---- groupby, with CPython's fields; Null for CPython's NULL

enum GroupPart : size_t { kSource, kKeyFunction, kTargetKey, kCurrentKey, kCurrentValue, kGroup };

/// Reads one more item and its key; false at the end.
bool read_group_item(Trace& trace, Iterator* groups) {
  Value* item = protocol::next(trace, groups->parts[kSource]);
  if (!item) return false;
  Value* function = groups->parts[kKeyFunction];
  groups->parts[kCurrentKey] = is_none(trace, function) ? item : protocol::call(trace, function, {item});
  groups->parts[kCurrentValue] = item;
  return true;
}

/// parts: the groupby and the key of this group.
Value* group_step(Trace& trace, Iterator* group) {
  auto* groups = static_cast<Iterator*>(group->parts[0]);
  if (groups->parts[kGroup] != group) return nullptr;
  if (groups->parts[kCurrentValue]->kind == Kind::Null && !read_group_item(trace, groups)) return nullptr;
  if (!protocol::equal(trace, group->parts[1], groups->parts[kCurrentKey])) return nullptr;
  return std::exchange(groups->parts[kCurrentValue], trace.null());
}

Value* groupby_step(Trace& trace, Iterator* groups) {
  static const Py_ssize_t step = protocol::add_step(&group_step, IteratorType::Group);  // no Python: a row
  auto& parts = groups->parts;
  groups->maker = nullptr;
  parts[kGroup] = trace.null();
  auto in_last_group = [&] {
    return parts[kCurrentKey]->kind == Kind::Null ||
           (parts[kTargetKey]->kind != Kind::Null && protocol::equal(trace, parts[kTargetKey], parts[kCurrentKey]));
  };
  while (in_last_group())
    if (!read_group_item(trace, groups)) return nullptr;
  parts[kTargetKey] = parts[kCurrentKey];
  parts[kGroup] = own_iterator(trace, step, {groups, parts[kTargetKey]});
  return trace.tuple({parts[kCurrentKey], parts[kGroup]});
}

Value* groupby(Trace& trace, const Args& args) {
  static const Py_ssize_t step = protocol::add_step(&groupby_step, IteratorType::GroupBy);  // no Python: a row
  PyObject* const maker = once([] { return real("itertools", "groupby"); });
  auto [iterable, key] = bind(args, 1, {"iterable", "key"});
  Value* null = trace.null();
  return own_iterator(trace, step, {get_iterator(trace, iterable), key ? key : trace.none(), null, null, null, null},
                      maker);
}

// ---- product, permutations, combinations: the real iterator over positions; parts are the pools as tuples

Value* positions_step(Trace& trace, Iterator* iterator) {
  Owned<> positions = Owned<>::steal(PyIter_Next(iterator->object));
  iterator->maker = nullptr;
  if (!positions) return PyErr_Occurred() ? throw PythonError() : nullptr;
  std::vector<Value*> items;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(positions.get()); ++i) {
    auto* pool = static_cast<value::Tuple*>(iterator->parts[static_cast<size_t>(i) % iterator->parts.size()]);
    items.push_back(pool->items[PyLong_AsSize_t(PyTuple_GET_ITEM(positions.get(), i))]);
  }
  return trace.tuple(std::move(items));
}

Value* over_positions(Trace& trace, PyObject* function, const std::vector<Value*>& iterables, PyObject* length,
                      PyObject* keywords) {
  static const Py_ssize_t step = protocol::add_step(&positions_step, IteratorType::Product);  // no Python: a row
  std::vector<Value*> pools;
  Owned<> args = take(PyTuple_New(static_cast<Py_ssize_t>(iterables.size()) + (length != nullptr)));
  for (size_t i = 0; i < iterables.size(); ++i) {
    std::vector<Value*> items = protocol::items_of_tuple(trace, iterables[i]);
    auto* range = reinterpret_cast<PyObject*>(&PyRange_Type);
    PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(i),
                     take(PyObject_CallFunction(range, "n", items.size())).release());
    pools.push_back(trace.tuple(std::move(items)));
  }
  if (length) PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(iterables.size()), share(length).release());
  PyObject* positions = PyObject_Call(function, args.get(), keywords);
  if (!positions) protocol::raise_current(trace);
  if (pools.empty()) pools.push_back(trace.tuple({}));
  Iterator* result = own_iterator(trace, step, std::move(pools));
  result->object = trace.keep(Owned<>::steal(positions));
  return result;
}

Value* product(Trace& trace, const Args& args) {
  PyObject* const function = once([] { return real("itertools", "product"); });
  Value* times = args.keyword("repeat");
  if (args.keywords != (times ? 1 : 0)) cannot(Reason::ArgumentKind, "an unexpected keyword argument");
  Py_ssize_t repeats = times ? protocol::index(trace, times) : 1;
  Owned<> keywords = take(Py_BuildValue("{sn}", "repeat", repeats));
  Value* result =
      over_positions(trace, function, {args.values, args.values + args.positional}, nullptr, keywords.get());
  if (repeats == 1) static_cast<Iterator*>(result)->maker = function;
  return result;
}

template <Text name>
Value* arrangements(Trace& trace, const Args& args) {
  PyObject* const function = once([] { return real("itertools", name.text); });
  auto [iterable, length] = bind(args, 1, {"iterable", "r"});
  bool all = is_none(trace, length);
  if (all && std::string_view(name.text) != "permutations") cannot(Reason::ArgumentKind, "a missing argument");
  Owned<> size = all ? share(Py_None) : take(PyLong_FromSsize_t(protocol::index(trace, length)));
  return over_positions(trace, function, {iterable}, size.get(), nullptr);
}

}  // namespace

void register_itertools() {
  add_rows("itertools", Takes::Asked,
           {
               {"count", &count},
               {"chain", &chain},
               {"chain.from_iterable", &chain_from_iterable},
               {"repeat", &repeat},
               {"cycle", &cycle},
               {"islice", &islice},
               {"starmap", &with_function<Iterator::StarMap>},
               {"takewhile", &with_function<Iterator::TakeWhile>},
               {"dropwhile", &with_function<Iterator::DropWhile>},
               {"filterfalse", &filter_false},
               {"accumulate", &accumulate},
               {"zip_longest", &zip_longest},
               {"pairwise", &pairwise},
               {"compress", &compress},
               {"tee", &tee},
               {"groupby", &groupby},
               {"product", &product},
               {"permutations", &arrangements<"permutations">},
               {"combinations", &arrangements<"combinations">},
               {"combinations_with_replacement", &arrangements<"combinations_with_replacement">},
           });
}

}  // namespace gramme::builtins
