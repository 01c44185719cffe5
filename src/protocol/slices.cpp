// Reading, assigning and deleting slices of lists and tuples.
#include "protocol/slices.h"

#include "cpython/features.h"
#include "protocol/number.h"
#include "protocol/special.h"

namespace gramme::protocol {

using namespace value;

namespace {

Owned<> bound(Trace& trace, Value* value) {
  if (!value) return share(Py_None);
  value = builtin_part(known(trace, trace.see(value)));
  if (value->kind == Kind::Constant && (value->object == Py_None || PyIndex_Check(value->object)))
    return share(value->object);
  if (!has_index(trace, value))
    raise(trace, PyExc_TypeError, "slice indices must be integers or None or have an __index__ method");
  return take(PyLong_FromSsize_t(index(trace, value)));
}

std::vector<Value*> picked(const std::vector<Value*>& items, const Span& span) {
  std::vector<Value*> result;
  result.reserve(static_cast<size_t>(span.count));
  for (Py_ssize_t i = 0; i < span.count; ++i) result.push_back(items[static_cast<size_t>(span.at(i))]);
  return result;
}

/// The items to assign to a slice; `text` is the TypeError's.
std::vector<Value*> assignable(Trace& trace, Value* value, const char* text) {
  value = trace.see(value);
  static PyObject* const iter_name = intern("__iter__");
  static PyObject* const getitem_name = intern("__getitem__");
  bool leaf = value->kind == Kind::Constant && !Py_TYPE(value->object)->tp_iter && !PySequence_Check(value->object);
  if (value->kind == Kind::Object) {
    PyTypeObject* type = static_cast<Object*>(value)->type;
    leaf = !trace.type_lookup(type, iter_name) && !trace.type_lookup(type, getitem_name);
  }
  if (leaf || value->kind == Kind::Number || value->kind == Kind::Function) raise(trace, PyExc_TypeError, text);
  if (value->kind == Kind::List || value->kind == Kind::Tuple) return items_of(trace, value);
  Value* iterator = nullptr;
  try {
    iterator = get_iterator(trace, value);
  } catch (const UserError& error) {  // PySequence_Fast replaces the message of any TypeError
    if (!matches(trace, error.exception, trace.pinned(PyExc_TypeError))) throw;
    raise(trace, PyExc_TypeError, text);
  }
  return items_of(trace, iterator);  // CPython asks the iterator, not the iterable, for a length
}

constexpr const char* kNotIterable = "must assign iterable to extended slice";

}  // namespace

Owned<> real_slice(Trace& trace, Slice* slice) {
  Owned<> start = bound(trace, slice->start), stop = bound(trace, slice->stop), step = bound(trace, slice->step);
  return take(PySlice_New(start.get(), stop.get(), step.get()));
}

Span span_of(Trace& trace, Slice* slice, size_t length) {
  Owned<> real = real_slice(trace, slice);
  Span span;
  if (PySlice_Unpack(real.get(), &span.start, &span.stop, &span.step) < 0) raise_current(trace);
  span.count = PySlice_AdjustIndices(static_cast<Py_ssize_t>(length), &span.start, &span.stop, span.step);
  return span;
}

Value* get_slice(Trace& trace, Value* sequence, Slice* slice) {
  auto* tuple = as<Tuple>(sequence);
  const std::vector<Value*>& items = tuple ? tuple->items : static_cast<List*>(sequence)->items();
  Span span = span_of(trace, slice, items.size());
  if (!tuple) return trace.list(picked(items, span));
  bool whole = span.start == 0 && span.step == 1 && static_cast<size_t>(span.count) == items.size();
  if (whole && tuple->type == &PyTuple_Type) return tuple;
  Tuple* result = trace.tuple(picked(items, span));
  if (is_size(tuple->type)) result->type = tuple->type;
  return result;
}

void set_slice(Trace& trace, List* list, Slice* slice, Value* value) {
  Span span = span_of(trace, slice, list->items().size());
  if (span.step == 1) {
    std::vector<Value*> values =
        assignable(trace, value, GRAMME_PYTHON_TEXTS >= 13 ? kNotIterable : "can only assign an iterable");
    trace.will_change(list);
    auto& items = list->items();
    Py_ssize_t size = static_cast<Py_ssize_t>(items.size());  // iterating may have changed the list
    Py_ssize_t start = std::min(span.start, size), stop = std::min(std::max(span.start, span.stop), size);
    items.erase(items.begin() + start, items.begin() + stop);
    items.insert(items.begin() + start, values.begin(), values.end());
    return;
  }
  std::vector<Value*> values = assignable(trace, value, kNotIterable);
  if (static_cast<Py_ssize_t>(values.size()) != span.count) {
    raise(trace, PyExc_ValueError,
          "attempt to assign sequence of size " + std::to_string(values.size()) + " to extended slice of size " +
              std::to_string(span.count));
  }
  trace.will_change(list);
  for (Py_ssize_t i = 0; i < span.count; ++i)
    list->items().at(static_cast<size_t>(span.at(i))) = values[static_cast<size_t>(i)];
}

void delete_slice(Trace& trace, List* list, Slice* slice) {
  Span span = span_of(trace, slice, list->items().size());
  if (span.count == 0) return;
  trace.will_change(list);
  std::vector<bool> gone(list->items().size());
  for (Py_ssize_t i = 0; i < span.count; ++i) gone[static_cast<size_t>(span.at(i))] = true;
  std::vector<Value*> rest;
  for (size_t i = 0; i < gone.size(); ++i)
    if (!gone[i]) rest.push_back(list->items()[i]);
  list->items().assign(rest.begin(), rest.end());  // keeps its capacity: see list.sort
}

}  // namespace gramme::protocol
