// Iterators that escape: replay makes new ones over their containers and moves them to their positions. No code of the
// program runs, only C code that makes an iterator or steps over keys and members.
#include "base/imported.h"
#include "base/once.h"
#include "cpython/itertools.h"
#include "cpython/objects.h"
#include "cpython/replayed.h"
#include "trace/rebuild.h"
#include "trace/sets.h"
#include "value/iterator_types.h"

namespace gramme::trace {

using namespace value;
using plan::Register;
using plan::ReplayKind;

namespace {

PyObject* as_object(PyTypeObject* type) { return reinterpret_cast<PyObject*>(type); }

PyObject* builtin(const char* name) { return PyDict_GetItemString(PyEval_GetBuiltins(), name); }

/// The number of set members that the iterator has passed.
Py_ssize_t passed_members(Trace& trace, Iterator* iterator, Set* set) {
  if (!set->placed) return iterator->index;
  Py_ssize_t passed = 0;
  for (Py_ssize_t place = 0; trace::next_member(trace, set, place) && place <= iterator->index;) ++passed;
  return passed;
}

/// The number of dict entries that the iterator has passed.
Py_ssize_t passed_entries(Iterator* iterator, Dict* dict) {
  if (iterator->increment < 0) return static_cast<Py_ssize_t>(dict->entries.size()) - iterator->index;
  Py_ssize_t passed = 0;
  for (size_t at = 0; dict->entries.next(at) && static_cast<Py_ssize_t>(at) <= iterator->index;) ++passed;
  return passed;
}

/// Ends the segment if the container changed under the iterator: the real one would raise, a new one would not.
void refuse_changed(Iterator* iterator, Value* sequence) {
  auto* deque = as<Deque>(sequence);
  const bool changed = deque && (deque->items.size() != iterator->expected || deque->moves != iterator->moves);
  if (changed) unsupported("an iterator over what has changed since");
}

}  // namespace

Register Rebuilder::call_method(PyTypeObject* type, const char* name, const std::vector<Register>& registers) {
  return call(cpython::type_lookup(type, intern(name)), registers);
}

void Rebuilder::set_state(PyTypeObject* type, Register iterator, Register state) {
  call_method(type, "__setstate__", {iterator, state});
}

void Rebuilder::set_itertool(Register iterator, Register state) { call(cpython::itertool_setter(), {iterator, state}); }

/// Moves the iterator to a position. A list iterator can be past the end of a list that shrank, where __setstate__
/// cannot put it.
void Rebuilder::move(Register iterator, Py_ssize_t position) {
  call(cpython::iterator_mover(), {iterator, integer(position)});
}

/// The iterable passed to the iterator's constructor, which calls iter() on it. For an iterator of the program's own
/// class that is a stand-in, so that none of the program's code runs.
Register Rebuilder::source_of(Value* iterator) {
  Register source = (*this)(iterator);
  return trace_.see(iterator)->kind == Kind::Object ? call(cpython::iterable_of(), {source}) : source;
}

Register Rebuilder::integer(Py_ssize_t value) { return constant(trace_.keep(take(PyLong_FromSsize_t(value)))); }

Register Rebuilder::itertool(const char* name, const std::vector<Register>& registers) {
  return call(trace_.keep(imported("itertools", name)), registers);
}

/// The container with its final content, because a later change would disturb an iterator over it.
Register Rebuilder::container_of(Value* container) {
  Register result = (*this)(container);
  if (container->written) replay_content(container);
  return result;
}

Register Rebuilder::over_sequence(Iterator* iterator) {
  Value* sequence = trace_.see(iterator->parts.at(0));
  if (iterator->done) {
    if (sequence->kind != Kind::List && sequence->kind != Kind::Tuple) unsupported("an exhausted iterator");
    return call(builtin("iter"),
                {(*this)(sequence->kind == Kind::List ? static_cast<Value*>(trace_.list({})) : trace_.tuple({}))});
  }
  refuse_changed(iterator, sequence);
  if (sequence->kind == Kind::Deque)
    return call(as_object(sequence_iterator_type(sequence)), {container_of(sequence), integer(iterator->index)});
  // A subclass may iterate in its own way.
  bool list = sequence->kind == Kind::List, tuple = sequence->kind == Kind::Tuple;
  Register made = list || tuple ? call_method(list ? &PyList_Type : &PyTuple_Type, "__iter__", {(*this)(sequence)})
                                : call(builtin("iter"), {(*this)(sequence)});
  if (list && iterator->index != 0) move(made, iterator->index);
  if (!list && iterator->index != 0) set_state(sequence_iterator_type(sequence), made, integer(iterator->index));
  return made;
}

Register Rebuilder::over_reversed(Iterator* iterator) {
  Value* sequence = trace_.see(iterator->parts.at(0));
  bool list = sequence->kind == Kind::List, tuple = sequence->kind == Kind::Tuple;
  if (iterator->done && (list || tuple))
    return call(builtin("reversed"), {(*this)(list ? static_cast<Value*>(trace_.list({})) : trace_.tuple({}))});
  if (sequence->kind == Kind::Deque && !iterator->done) {
    refuse_changed(iterator, sequence);
    auto passed = static_cast<Py_ssize_t>(static_cast<Deque*>(sequence)->items.size()) - 1 - iterator->index;
    return call(as_object(type_of(IteratorType::ReversedDeque)), {container_of(sequence), integer(passed)});
  }
  if (!list && !tuple) unsupported("a reversed iterator");
  Register made = call(builtin("reversed"), {(*this)(sequence)});
  if (list && iterator->index >= 0)
    move(made, iterator->index);
  else
    set_state(list ? &PyListRevIter_Type : &PyReversed_Type, made, integer(iterator->index));
  return made;
}

/// An iterator over a dict, its views or a set, stepped to its position.
Register Rebuilder::over_entries(Iterator* iterator) {
  auto* view = as<View>(iterator->parts.at(0));
  Value* container = view ? view->dict : iterator->parts[0];
  auto* dict = as<Dict>(container);
  auto* members = as<Set>(container);
  if (!dict && !members) unsupported("an iterator over an instance's attributes");
  if (members && !members->placed && members->entries.size() > 1) unsupported("an iterator over a set of objects");
  uint64_t stamp = dict ? dict->entries.stamp() : members->entries.stamp();
  bool changed = stamp != static_cast<uint64_t>(iterator->stop);
  if (changed && !iterator->done) unsupported("an iterator over what has changed since");
  Py_ssize_t passed = dict ? passed_entries(iterator, dict) : passed_members(trace_, iterator, members);
  if (iterator->done) {
    container = members ? static_cast<Value*>(trace_.make<Set>()) : trace_.dict();
    if (dict && dict->type != &PyDict_Type) unsupported("an exhausted iterator over an OrderedDict");
    passed = 0;
  }
  Register source = container_of(container);
  constexpr const char* kViews[] = {"keys", "values", "items"};
  if (view) source = call_method(dict->type, kViews[view->which], {source});
  bool backwards = iterator->increment < 0;
  PyTypeObject* type = view ? nullptr : dict ? dict->type : members->frozen ? &PyFrozenSet_Type : &PySet_Type;
  Register made = type ? call_method(type, backwards ? "__reversed__" : "__iter__", {source})
                       : call(builtin(backwards ? "reversed" : "iter"), {source});
  for (Py_ssize_t i = 0; i < passed; ++i) call(builtin("next"), {made});
  return made;
}

Register Rebuilder::over_others(Iterator* iterator) {
  auto part = [&](size_t i) { return (*this)(iterator->parts.at(i)); };
  auto source = [&](size_t i) { return source_of(iterator->parts.at(i)); };
  switch (iterator->sort) {
    case Iterator::Chain: {
      Register made = itertool("chain", {});
      if (!iterator->done) set_itertool(made, (*this)(trace_.tuple(iterator->parts)));
      return made;
    }
    case Iterator::Repeat:
      return iterator->stop < 0 ? itertool("repeat", {part(0)})
                                : itertool("repeat", {part(0), integer(iterator->stop)});
    case Iterator::Count:
      return itertool("count", {part(0), part(1)});
    case Iterator::Cycle: {
      const bool first_pass = iterator->expected == 0;
      Value* saved = trace_.list({iterator->parts.begin() + 1, iterator->parts.end()});
      Register items = first_pass ? source(0) : (*this)(trace_.none());
      return call(cpython::cycle_maker(), {items, (*this)(saved), integer(first_pass ? -1 : iterator->index)});
    }
    case Iterator::Islice: {
      if (iterator->done) return itertool("islice", {(*this)(trace_.tuple({})), integer(0)});
      auto taken = static_cast<Py_ssize_t>(iterator->expected);
      Register stop =
          iterator->stop < 0 ? (*this)(trace_.none()) : integer(std::max(iterator->stop - taken, Py_ssize_t{0}));
      Py_ssize_t start = std::max(iterator->index - taken, Py_ssize_t{0});
      return itertool("islice", {source(0), integer(start), stop, integer(iterator->increment)});
    }
    case Iterator::StarMap:
      return itertool("starmap", {part(0), source(1)});
    case Iterator::TakeWhile:
    case Iterator::DropWhile: {
      const char* name = iterator->sort == Iterator::TakeWhile ? "takewhile" : "dropwhile";
      Register made = itertool(name, {part(0), source(1)});
      if (iterator->done || iterator->index == 1) set_itertool(made, (*this)(trace_.boolean(true)));
      return made;
    }
    case Iterator::Accumulate: {
      if (iterator->index == 1) unsupported("accumulate() with an initial value");
      Register made = itertool("accumulate", {source(1), part(0)});
      if (iterator->parts.size() > 2) set_itertool(made, part(2));
      return made;
    }
    case Iterator::CallUntil:
      if (iterator->done) unsupported("an exhausted iterator");
      return call(builtin("iter"), {part(0), part(1)});
    case Iterator::Sequence:
    case Iterator::Range:
    case Iterator::Entries:
    case Iterator::Reversed:
    case Iterator::Enumerate:
    case Iterator::Zip:
    case Iterator::Map:
    case Iterator::Filter:
    case Iterator::Other:
    case Iterator::Live:
      break;
  }
  if (!iterator->maker || iterator->done) unsupported("an iterator that was advanced");
  std::vector<Register> parts;
  for (size_t i = 0; i < iterator->parts.size(); ++i)
    if (iterator->parts[i]->kind != Kind::Null) parts.push_back(i == 0 ? source(i) : part(i));
  return call(iterator->maker, parts);
}

Register Rebuilder::make_new(Iterator* iterator) {
  auto sources = [&](size_t from) {
    std::vector<Register> registers;
    if (from == 1) registers.push_back((*this)(iterator->parts.at(0)));  // a function
    for (size_t i = from; i < iterator->parts.size(); ++i) registers.push_back(source_of(iterator->parts[i]));
    return registers;
  };
  switch (iterator->sort) {
    case Iterator::Sequence:
      return over_sequence(iterator);
    case Iterator::Reversed:
      return over_reversed(iterator);
    case Iterator::Entries:
      return over_entries(iterator);
    case Iterator::Range: {
      Owned<> range = take(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyRange_Type), "nnn", iterator->index,
                                                 iterator->stop, iterator->increment));
      return call(builtin("iter"), {constant(trace_.keep(range))});
    }
    case Iterator::Enumerate:
      return call(builtin("enumerate"), {source_of(iterator->parts.at(0)), integer(iterator->index)});
    case Iterator::Zip: {
      PyObject* const strict = once([] {
        return take(PyRun_String("__import__('functools').partial(zip, strict=True)", Py_eval_input,
                                 PyEval_GetBuiltins(), PyEval_GetBuiltins()))
            .release();
      });
      return call(iterator->stop == 1 ? strict : builtin("zip"), sources(0));
    }
    case Iterator::Map:
      return call(builtin("map"), sources(1));
    case Iterator::Filter:
      return iterator->stop == 1 ? itertool("filterfalse", sources(1)) : call(builtin("filter"), sources(1));
    case Iterator::Chain:
    case Iterator::Repeat:
    case Iterator::Count:
    case Iterator::Cycle:
    case Iterator::Islice:
    case Iterator::StarMap:
    case Iterator::Accumulate:
    case Iterator::TakeWhile:
    case Iterator::DropWhile:
    case Iterator::CallUntil:
    case Iterator::Other:
    case Iterator::Live:
      return over_others(iterator);
  }
  GRAMME_BUG("a value of no kind");
}

}  // namespace gramme::trace
