// Iterators and ranges: enumerate, zip, map, filter, reversed, range, slice; methods of iterators and generators.
#include "builtins/python_support.h"
#include "cpython/features.h"
#include "cpython/objects.h"

namespace gramme::builtins {
namespace {

using value::Generator;
using value::Iterator;
using value::IteratorType;
using value::Kind;

std::vector<Value*> iterators_of(Trace& trace, const Args& args, size_t from = 0) {
  std::vector<Value*> iterators;
  for (size_t i = from; i < args.positional; ++i) iterators.push_back(protocol::get_iterator(trace, args[i]));
  return iterators;
}

// ---- makers

Value* enumerate(Trace& trace, const Args& args) {
  auto [iterable, start] = bind(args, 1, {"iterable", "start"});
  Iterator* result = protocol::make_iterator(trace, Iterator::Enumerate, {protocol::get_iterator(trace, iterable)});
  result->index = start ? protocol::index(trace, start) : 0;
  return result;
}

Value* zip(Trace& trace, const Args& args) {
  Value* strict = args.keyword("strict");
  if (args.keywords != (strict ? 1 : 0)) cannot(Reason::ArgumentKind, "an unexpected keyword argument");
  Iterator* result = protocol::make_iterator(trace, Iterator::Zip, iterators_of(trace, args));
  result->stop = flag(trace, strict, false);
  return result;
}

Value* map(Trace& trace, const Args& args) {
  if (args.keywords || args.positional < 2) cannot(Reason::ArgumentKind, "map() with too few arguments");
  std::vector<Value*> parts = iterators_of(trace, args, 1);
  parts.insert(parts.begin(), args[0]);
  return protocol::make_iterator(trace, Iterator::Map, std::move(parts));
}

Value* filter(Trace& trace, const Args& args) {
  auto [function, iterable] = positional<2>(args, 2);
  return protocol::make_iterator(trace, Iterator::Filter, {function, protocol::get_iterator(trace, iterable)});
}

Value* reversed(Trace& trace, const Args& args) {
  auto [sequence] = positional<1>(args, 1);
  return protocol::reversed(trace, sequence);
}

Value* make_range(Trace& trace, const Args& args) {
  for (Value* bound : all_positional(args))
    if (trace.see(bound)->kind == Kind::Tensor) cannot(Reason::DataDependentValue, "range() of a tensor");
  if (trace.contract.breaks)
    for (Value* bound : all_positional(args))
      if (auto* number = trace.see_as<value::Number>(bound);
          number && number->expr && trace.numbers.was_needed(number->expr))
        cannot(Reason::DataDependentValue, "a loop over a dynamic size");
  return fold_or_stop(trace, reinterpret_cast<PyObject*>(&PyRange_Type), args, "range");
}

Value* make_slice(Trace& trace, const Args& args) {
  auto [first, second, third] = positional<3>(args, 1);
  auto* slice = trace.make<value::Slice>();
  slice->start = second ? first : trace.none();
  slice->stop = second ? second : first;
  slice->step = third ? third : trace.none();
  return slice;
}

// ---- methods of iterators

Value* self(Trace&, const Args& args) { return positional<1>(args, 1)[0]; }

Value* next_item(Trace& trace, const Args& args) {
  auto [iterator] = positional<1>(args, 1);
  auto* known = trace.see_as<Iterator>(iterator);
  if (!known) cannot(Reason::IteratorLive);
  if (Value* item = protocol::next(trace, known)) return item;
  protocol::refuse_stop_value(trace, known);
  raise_stop_iteration(trace, nullptr);
}

/// __length_hint__ of an iterator over a sequence.
Value* items_left(Trace& trace, const Args& args) {
  static PyObject* const kLen = intern("__len__");
  auto [self] = positional<1>(args, 1);
  auto* iterator = trace.see_as<Iterator>(self);
  if (!iterator || iterator->sort != Iterator::Sequence) cannot(Reason::IteratorLive);
  if (iterator->done) return trace.integer(0);
  Value* sequence = iterator->parts[0];
  auto* tuple = value::as<value::Tuple>(sequence);
  if (sequence->kind == Kind::Object && !trace.type_lookup(protocol::type_of(sequence), kLen))
    return trace.constant(Py_NotImplemented);
  const auto items = tuple ? static_cast<Py_ssize_t>(tuple->items.size()) : protocol::length(trace, sequence);
  return trace.integer(std::max<Py_ssize_t>(items - iterator->index, 0));
}

// ---- methods of generators

Generator* generator_argument(Trace& trace, Value* self) {
  auto* generator = trace.see_as<Generator>(self);
  if (!generator) cannot(Reason::IteratorLive);
  if (generator->running) protocol::raise(trace, PyExc_ValueError, "generator already executing");
  return generator;
}

/// Resumes a generator; raises StopIteration with the returned value at its end.
Value* resume(Trace& trace, Generator* generator, Value* sent, const value::UserError* thrown) {
  Value* returned = trace.none();
  if (Value* item = trace.inliner->resume(generator, sent, thrown, &returned)) return item;
  raise_stop_iteration(trace, returned);
}

Value* generator_send(Trace& trace, const Args& args) {
  auto [self, sent] = positional<2>(args, 2);
  Generator* generator = generator_argument(trace, self);
  if (!generator->frame) raise_stop_iteration(trace, nullptr);
  if (!generator->started && !is_none(trace, sent))
    protocol::raise(trace, PyExc_TypeError, "can't send non-None value to a just-started generator");
  return resume(trace, generator, sent, nullptr);
}

Value* generator_next(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  Generator* generator = generator_argument(trace, self);
  if (!generator->frame) raise_stop_iteration(trace, nullptr);
  return resume(trace, generator, trace.none(), nullptr);
}

/// The exception that throw(type, value) or throw(instance) raises in the generator.
value::UserError thrown_error(Trace& trace, Value* type, Value* given) {
  Value* exception = type;
  bool instance =
      given && trace.see(given)->kind == Kind::Object &&
      PyType_IsSubtype(protocol::type_of(trace.see(given)), reinterpret_cast<PyTypeObject*>(PyExc_BaseException));
  if (instance)
    exception = given;
  else if (!is_none(trace, given))
    exception = protocol::call(trace, type, {given});
  try {
    protocol::raise(trace, exception);
  } catch (const value::UserError& error) {
    return error;
  }
}

Value* generator_throw(Trace& trace, const Args& args) {
  auto [self, type, given, traceback] = positional<4>(args, 2);
  Generator* generator = generator_argument(trace, self);
  value::UserError error = thrown_error(trace, type, given);
  if (!generator->frame) throw error;
  return resume(trace, generator, trace.none(), &error);
}

Value* generator_close(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  Generator* generator = generator_argument(trace, self);
  trace.confinement.changes(generator);
  if (!generator->started) generator->frame = nullptr;
  if (!generator->frame) return trace.none();
  value::UserError error = thrown_error(trace, trace.pinned(PyExc_GeneratorExit), nullptr);
  Value *returned = nullptr, *item = nullptr;
  bool left = raises(trace, PyExc_GeneratorExit, [&] {
    if (raises(trace, PyExc_StopIteration,
               [&] { item = trace.inliner->resume(generator, trace.none(), &error, &returned); }))
      item = nullptr;
  });
  if (!left && item) protocol::raise(trace, PyExc_RuntimeError, "generator ignored GeneratorExit");
  return GRAMME_PYTHON_CLOSE_RETURNS && !left && returned ? returned : trace.none();
}

void register_iterator_types() {
  for (PyTypeObject* type : value::iterator_types())
    add_rows(type, Takes::Asked, {{"__next__", &next_item}, {"__iter__", &self}});
  for (IteratorType type : {IteratorType::List, IteratorType::Tuple, IteratorType::Ascii, IteratorType::Text,
                            IteratorType::Bytes, IteratorType::Sequence})
    add_rows(value::type_of(type), Takes::Asked, {{"__length_hint__", &items_left}});
}

}  // namespace

void register_iterators() {
  add_rows("builtins", Takes::Asked,
           {
               {"enumerate", &enumerate},
               {"zip", &zip},
               {"map", &map},
               {"filter", &filter},
               {"reversed", &reversed},
               {"range", &make_range},
               {"slice", &make_slice},
           });
  add_pure("builtins", {"range.index", "range.count", "slice.indices"});
  add_rows(&PyGen_Type, Takes::Asked,
           {
               {"send", &generator_send},
               {"throw", &generator_throw},
               {"close", &generator_close},
               {"__next__", &generator_next},
               {"__iter__", &self},
           });
  register_iterator_types();
}

}  // namespace gramme::builtins
