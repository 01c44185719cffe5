// iter() and next(). What each sort of iterator does is in steps.cpp.
#include "protocol/iterate.h"

#include "base/once.h"
#include "cpython/features.h"
#include "protocol/answers.h"
#include "protocol/number.h"
#include "protocol/operator_table.h"
#include "protocol/special.h"
#include "protocol/steps.h"
#include "protocol/tensors.h"
#include "value/traits.h"

namespace gramme::protocol {

using namespace value;

namespace {

[[noreturn]] void not_iterable(Trace& trace, Value* seen) {
  raise_about(trace, PyExc_TypeError, "'{}' object is not iterable", seen);
}

bool is_stop_iteration(Trace& trace, const UserError& error, PyObject* type) {
  PyTypeObject* raised = type_of(trace.see(error.exception));
  return PyType_IsSubtype(raised, reinterpret_cast<PyTypeObject*>(type));
}

// ---- iter()

/// The rows of a tensor. Tensor.__iter__ takes all of them by one call, whose views autograd knows as such. Compilers
/// get one subscript per row, as from PyTorch's front end.
std::vector<Value*> rows(Trace& trace, Tensor* tensor) {
  PyObject* const getitem = once([] { return operator_function("getitem"); });
  static PyObject* const iter_name = intern("__iter__");
  static PyObject* const unbind_name = intern("unbind");
  static PyObject* const dim_name = intern("dim");
  refuse_replaced(trace, {tensor}, {iter_name, unbind_name, dim_name});
  refuse_torch_function(trace, tensor, "iter()");
  refuse_jagged(*tensor->record, "iter()");
  if (asked_for(trace, tensor) == Asked::Default)  // each row gets the class
    return items_of(trace, call_method(trace, tensor, unbind_name, {trace.integer(0)}));
  if (tensor->record->dim() == 0) raise(trace, PyExc_TypeError, "iteration over a 0-d tensor");
  std::vector<Value*> items;
  const int64_t count = trace.fixed(tensor->record->sizes[0]);
  if (trace.contract.as_is) {
    Value* arguments[] = {tensor, trace.integer(0)};
    return trace.see_as<Tuple>(trace.emit_method(unbind_name, Args{arguments, 2, nullptr, 0}))->items;
  }
  for (int64_t i = 0; i < count; ++i) items.push_back(trace.emit(getitem, {tensor, trace.integer(i)}));
  return items;
}

Value* iterator_of(Trace& trace, Constant* constant) {
  PyObject* object = constant->object;
  if (PyUnicode_CheckExact(object) || PyBytes_CheckExact(object))
    return make_iterator(trace, Iterator::Sequence, {constant});
  if (Py_TYPE(object) == &PyRange_Type) return range_constant_iterator(trace, object, false);
  if (!Py_TYPE(object)->tp_iter && !PySequence_Check(object)) not_iterable(trace, constant);
  cannot(Reason::ArgumentKind, "iterating over " + type_name(constant));
}

Value* iterator_of(Trace& trace, Tuple* tuple) { return make_iterator(trace, Iterator::Sequence, {tuple}); }
Value* iterator_of(Trace& trace, List* list) { return make_iterator(trace, Iterator::Sequence, {list}); }
Value* iterator_of(Trace& trace, Deque* deque) { return make_iterator(trace, Iterator::Sequence, {deque}); }
Value* iterator_of(Trace& trace, Dict* dict) { return entries_iterator(trace, dict); }
Value* iterator_of(Trace& trace, Set* set) { return entries_iterator(trace, set); }
Value* iterator_of(Trace& trace, View* view) { return entries_iterator(trace, view); }
Value* iterator_of(Trace& trace, InstanceDict* names) { return entries_iterator(trace, names); }
Value* iterator_of(Trace&, Iterator* iterator) { return iterator; }
Value* iterator_of(Trace&, Generator* generator) { return generator; }
Value* iterator_of(Trace& trace, Tensor* tensor) {
  return make_iterator(trace, Iterator::Sequence, {trace.tuple(rows(trace, tensor))});
}
[[noreturn]] Value* iterator_of(Trace&, Namespace*) { cannot(Reason::ArgumentKind, "iterating over globals()"); }

bool is_c_iterator(Trace& trace, Object* object) {
  static PyObject* const next_name = intern("__next__");
  PyObject* raw = trace.type_lookup(object->type, next_name);
  return raw && Py_TYPE(raw) == &PyWrapperDescr_Type;
}

bool is_iterator(Trace& trace, Value* seen) {
  static PyObject* const next_name = intern("__next__");
  if (seen->kind == Kind::Iterator || seen->kind == Kind::Generator) return true;
  return has_own_class(seen) && trace.type_lookup(type_of(seen), next_name);
}

/// iter() of objects, instances of tuple subclasses, and classes: __iter__, else the sequence protocol.
Value* object_iterator(Trace& trace, Value* seen) {
  static PyObject* const iter_name = intern("__iter__");
  static PyObject* const getitem_name = intern("__getitem__");
  auto* object = as<Object>(seen);
  if (forbidden(trace, seen, iter_name)) not_iterable(trace, seen);
  if (Value* payload = payload_for(trace, seen, iter_name)) return get_iterator(trace, payload);
  if (object && object->type->tp_iter == PyObject_SelfIter && is_c_iterator(trace, object)) return seen;
  if (Value* method = own_method(trace, seen, iter_name)) {
    Value* iterator = trace.see(call(trace, method, {}));
    if (is_iterator(trace, iterator)) return iterator;
    raise_about(trace, PyExc_TypeError, "iter() returned non-iterator of type '{}'", iterator);
  }
  if (seen->kind == Kind::Tuple || own_method(trace, seen, getitem_name))
    return make_iterator(trace, Iterator::Sequence, {seen});
  not_iterable(trace, seen);
}

// ---- next()

Value* resume(Trace& trace, Generator* generator) {
  if (generator->running) raise(trace, PyExc_ValueError, "generator already executing");
  if (!generator->frame) return nullptr;
  Value* returned = nullptr;
  return trace.inliner->resume(generator, trace.none(), nullptr, &returned);
}

Value* object_next(Trace& trace, Value* seen) {
  static PyObject* const next_name = intern("__next__");
  auto* object = as<Object>(seen);
  if (object && is_c_iterator(trace, object)) cannot(Reason::IteratorLive, type_name(seen));
  Value* method = own_method(trace, seen, next_name);
  if (!method) raise_about(trace, PyExc_TypeError, "'{}' object is not an iterator", seen);
  try {
    return call(trace, method, {});
  } catch (const UserError& error) {
    if (!is_stop_iteration(trace, error, PyExc_StopIteration)) throw;
    return nullptr;
  }
}

}  // namespace

Iterator* make_iterator(Trace& trace, Iterator::Sort sort, std::vector<Value*> parts) {
  auto* iterator = trace.make<Iterator>();
  iterator->sort = sort;
  iterator->parts = std::move(parts);
  if (sort == Iterator::Sequence) note_size(trace, iterator);
  return iterator;
}

void refuse_stop_value(Trace& trace, Iterator* iterator) {
  switch (iterator->sort) {
    case Iterator::Sequence:
    case Iterator::Range:
    case Iterator::Entries:
    case Iterator::Reversed:
    case Iterator::Repeat:
    case Iterator::Count:
    case Iterator::CallUntil:  // drops it
      return;
    case Iterator::Enumerate:
    case Iterator::Zip:
    case Iterator::Map:
    case Iterator::Filter:
    case Iterator::Chain:
    case Iterator::Cycle:
    case Iterator::Islice:
    case Iterator::StarMap:
    case Iterator::Accumulate:
    case Iterator::TakeWhile:
    case Iterator::DropWhile:
    case Iterator::Other:
    case Iterator::Live:
      break;
  }
  for (Value* part : iterator->parts) {
    Value* seen = trace.see(part);
    if (seen->kind == Kind::Object || seen->kind == Kind::Generator)
      cannot(Reason::ArgumentKind, "the value with which an iterator over others ends");
    if (auto* inner = as<Iterator>(seen)) refuse_stop_value(trace, inner);
  }
}

Value* stop_value(Trace& trace, const UserError& error) {
  static PyObject* const value_name = intern("value");
  if (!is_stop_iteration(trace, error, PyExc_StopIteration)) throw UserError(error);
  auto* stop = as<Object>(trace.see(error.exception));
  if (!stop || stop->existing() || reinterpret_cast<PyObject*>(stop->type) != PyExc_StopIteration)
    cannot(Reason::ArgumentKind, "the value of a StopIteration of a subclass, or created before the capture");
  return find_attribute(trace, stop, value_name);
}

Value* get_iterator(Trace& trace, Value* iterable) {
  iterable = trace.see(iterable);
  if (has_own_class(iterable)) return object_iterator(trace, iterable);
  if (!has(iterable->kind, ITERABLE)) not_iterable(trace, iterable);
  return as_kind<ITERABLE>(iterable, [&](auto* seen) { return iterator_of(trace, seen); });
}

Value* next(Trace& trace, Value* iterator) {
  trace.progress.tick();
  iterator = trace.see(iterator);
  if (auto* own = as<Iterator>(iterator)) {
    if (own->sort == Iterator::Live) return trace.inliner->advance(own);
    trace.will_change(own);
    return step(trace, own);
  }
  if (auto* generator = as<Generator>(iterator)) return resume(trace, generator);
  return object_next(trace, iterator);
}

namespace {

/// Whether an iterable is asked for its number of items.
enum class Hint : uint8_t { Asked, NotAsked };

std::vector<Value*> all_items(Trace& trace, Value* iterable, Hint hint) {
  static PyObject* const iter_name = intern("__iter__");
  auto ask = [&] {
    if (hint == Hint::Asked) length_hint(trace, iterable);
  };
  iterable = trace.see(iterable);
  if (Value* payload = payload_for(trace, iterable, iter_name)) {
    ask();
    iterable = payload;
  }
  bool own = has_own_class(iterable) && (iterable->kind != Kind::Tuple || own_method(trace, iterable, iter_name));
  if (!own) {
    ask();
    if (auto* tuple = as<Tuple>(iterable)) return tuple->items;
    if (auto* list = as<List>(iterable)) return list->items();
    if (auto* deque = as<Deque>(iterable)) return deque->items;
    if (auto* tensor = as<Tensor>(iterable)) return rows(trace, tensor);
  }
  std::vector<Value*> items;
  Value* iterator = get_iterator(trace, iterable);
  ask();
  while (Value* item = next(trace, iterator)) items.push_back(item);
  return items;
}

}  // namespace

std::vector<Value*> items_of(Trace& trace, Value* iterable) { return all_items(trace, iterable, Hint::Asked); }

std::vector<Value*> items_of_tuple(Trace& trace, Value* iterable) {
  return all_items(trace, iterable, GRAMME_PYTHON_TUPLES_WITHOUT_HINT ? Hint::NotAsked : Hint::Asked);
}

namespace {

/// What `ask` returns; null if it raises TypeError.
template <class Ask>
Value* unless_type_error(Trace& trace, Ask&& ask) {
  try {
    return ask();
  } catch (const UserError& error) {
    if (!matches(trace, error.exception, trace.pinned(PyExc_TypeError))) throw;
    return nullptr;
  }
}

}  // namespace

Value* length_hint(Trace& trace, Value* iterable) {
  static PyObject* const len_name = intern("__len__");
  static PyObject* const hint_name = intern("__length_hint__");
  iterable = trace.see(iterable);
  if (!has_own_class(iterable)) return nullptr;
  if (own_method(trace, iterable, len_name)) {
    if (Value* size = unless_type_error(trace, [&] { return trace.integer(length(trace, iterable)); })) return size;
  } else if (iterable->kind == Kind::Tuple || payload_for(trace, iterable, len_name)) {
    return nullptr;  // C code handles it first
  }
  Value* method = own_method(trace, iterable, hint_name);
  if (!method) return nullptr;
  Value* hint = unless_type_error(trace, [&] { return trace.see(call(trace, method, {})); });
  if (!hint || (hint->kind == Kind::Constant && hint->object == Py_NotImplemented)) return nullptr;
  hint = known(trace, checked_answer(trace, Answer::of_length_hint, hint));
  Py_ssize_t size = PyLong_AsSsize_t(hint->object);
  if (size == -1 && PyErr_Occurred()) raise_current(trace);
  if (size < 0) raise(trace, PyExc_ValueError, "__length_hint__() should return >= 0");
  return hint;
}

// ---- reversed()

Value* reversed(Trace& trace, Value* object) {
  static PyObject* const reversed_name = intern("__reversed__");
  static PyObject* const getitem_name = intern("__getitem__");
  static PyObject* const len_name = intern("__len__");
  object = trace.see(object);
  if (forbidden(trace, object, reversed_name))
    raise_about(trace, PyExc_TypeError, "'{}' object is not reversible", object);
  if (Value* method = own_method(trace, object, reversed_name)) return call(trace, method, {});
  Value* held = object->kind == Kind::Tuple ? object : payload_of(object);
  bool own_items = held && held->kind == Kind::Tuple && has_own_class(object) &&
                   (own_method(trace, object, getitem_name) || own_method(trace, object, len_name));
  if (own_items) cannot(Reason::ArgumentKind, "reversed() of a tuple's subclass with its own items");
  if (Value* payload = payload_for(trace, object, reversed_name)) return reversed(trace, payload);
  auto* view = as<View>(object);
  if (object->kind == Kind::Dict || object->kind == Kind::InstanceDict || view)
    return entries_iterator(trace, object, true);
  refuse_replaced(trace, {object}, {reversed_name});
  if (object->kind == Kind::Tensor) return trace.emit_method(reversed_name, Args{&object, 1, nullptr, 0});
  if (is_constant_of(object, &PyRange_Type)) return range_constant_iterator(trace, object->object, true);
  bool sequence = object->kind == Kind::Tuple || object->kind == Kind::List || object->kind == Kind::Deque ||
                  is_constant_of(object, &PyUnicode_Type) || is_constant_of(object, &PyBytes_Type);
  if (!sequence && payload_for(trace, object, getitem_name)) return reversed(trace, payload_of(object));
  if (!sequence && !own_method(trace, object, getitem_name))
    raise_about(trace, PyExc_TypeError, "'{}' object is not reversible", object);
  if (!sequence && !own_method(trace, object, len_name))
    raise_about(trace, PyExc_TypeError, "object of type '{}' has no len()", object);
  Iterator* iterator = make_iterator(trace, Iterator::Reversed, {object});
  iterator->index = length(trace, object) - 1;
  note_size(trace, iterator);
  return iterator;
}

}  // namespace gramme::protocol
