// Looks ahead and advances by type; the layouts are in layouts.h.
#include "cpython/iterators.h"

#include <utility>

#include "cpython/objects.h"

namespace gramme::cpython {

namespace {

template <class Layout>
Layout* as_layout(PyObject* object) {
  return reinterpret_cast<Layout*>(object);
}

Ahead number(Py_ssize_t value) {
  Ahead ahead{Next::Item};
  ahead.made = Owned<>::steal(PyLong_FromSsize_t(value));
  if (!ahead.made) {
    PyErr_Clear();
    return {};
  }
  ahead.item = ahead.made.get();
  return ahead;
}

Ahead item_of(PyObject* sequence, Py_ssize_t at) {
  if (!sequence || at < 0 || at >= Py_SIZE(sequence)) return {Next::End};
  return {Next::Item, PyTuple_Check(sequence) ? PyTuple_GET_ITEM(sequence, at) : PyList_GET_ITEM(sequence, at)};
}

Ahead entry_of(layout::DictIterator* iterator, Py_ssize_t passed, Iterates what) {
  if (!iterator->dict) return {Next::End};
  if (iterator->size != PyDict_GET_SIZE(iterator->dict)) return {};
  Py_ssize_t at = iterator->position;
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t i = 0; i <= passed; ++i)
    if (!PyDict_Next(iterator->dict, &at, &key, &value)) return {Next::End};
  if (iterator->left <= passed) return {};  // keys changed, but not how many
  if (what == Iterates::Items) return {Next::Item, key, value};
  return {Next::Item, what == Iterates::Keys ? key : value};
}

Ahead number_of(layout::Enumerate* iterator, Py_ssize_t passed) {
  Py_ssize_t value;
  if (iterator->beyond || __builtin_add_overflow(iterator->index, passed, &value) || value == PY_SSIZE_T_MAX) return {};
  return number(value);
}

Ahead number_of(layout::RangeIterator* iterator, Py_ssize_t passed) {
  const long at = iterator->index() + passed;
  if (at >= iterator->length) return {Next::End};
  return number(iterator->start + at * iterator->step);
}

}  // namespace

Iterates iterates(PyObject* iterator) {
  PyTypeObject* type = Py_TYPE(iterator);
  const std::pair<PyTypeObject*, Iterates> types[] = {
      {&PyListIter_Type, Iterates::List},         {&PyTupleIter_Type, Iterates::Tuple},
      {&PyDictIterValue_Type, Iterates::Values},  {&PyDictIterItem_Type, Iterates::Items},
      {&PyDictIterKey_Type, Iterates::Keys},      {&PyRangeIter_Type, Iterates::Range},
      {&PyEnum_Type, Iterates::Enumerate},        {&PyZip_Type, Iterates::Zip},
      {&PyListRevIter_Type, Iterates::Backwards},
  };
  for (auto [known, what] : types)
    if (type == known) return what;
  return Iterates::Unknown;
}

Ahead look_ahead(PyObject* iterator, Py_ssize_t passed) {
  const Iterates what = iterates(iterator);
  switch (what) {
    case Iterates::List:
    case Iterates::Tuple: {
      auto* sequence = as_list_iterator(iterator);
      return item_of(sequence->list, sequence->position + passed);
    }
    case Iterates::Backwards: {
      auto* sequence = as_list_iterator(iterator);
      if (sequence->list && sequence->position >= Py_SIZE(sequence->list)) return {Next::End};
      return item_of(sequence->list, sequence->position - passed);
    }
    case Iterates::Range:
      return number_of(as_layout<layout::RangeIterator>(iterator), passed);
    case Iterates::Keys:
    case Iterates::Values:
    case Iterates::Items:
      return entry_of(as_layout<layout::DictIterator>(iterator), passed, what);
    case Iterates::Enumerate:
      return number_of(as_layout<layout::Enumerate>(iterator), passed);
    case Iterates::Zip:
    case Iterates::Unknown:
      break;
  }
  return {};
}

PyObject** iterated_address(PyObject* iterator) {
  switch (iterates(iterator)) {
    case Iterates::List:
    case Iterates::Tuple:
    case Iterates::Backwards:
      return list_iterator_list(iterator);
    case Iterates::Keys:
    case Iterates::Values:
    case Iterates::Items:
      return &as_layout<layout::DictIterator>(iterator)->dict;
    case Iterates::Enumerate:
      return &as_layout<layout::Enumerate>(iterator)->iterator;
    case Iterates::Zip: {
      auto* zip = as_layout<layout::Zip>(iterator);
      return zip->strict ? nullptr : &zip->iterators;
    }
    case Iterates::Range:
    case Iterates::Unknown:
      break;
  }
  return nullptr;
}

/// From 3.13 on a list iterator's position marks its end too.
void end_list_iterator(PyObject* iterator) {
  if (!Py_IS_TYPE(iterator, &PyTupleIter_Type)) *list_iterator_position(iterator) = -1;
  Py_CLEAR(*list_iterator_list(iterator));
}

bool advance_iterator(PyObject* iterator, Py_ssize_t count, bool ended) {
  switch (iterates(iterator)) {
    case Iterates::List:
    case Iterates::Tuple:
      *list_iterator_position(iterator) += count;
      if (ended) end_list_iterator(iterator);
      return true;
    case Iterates::Backwards:
      *list_iterator_position(iterator) -= count;
      if (ended) end_list_iterator(iterator);
      return true;
    case Iterates::Range:
      as_layout<layout::RangeIterator>(iterator)->advance(count);
      return true;
    case Iterates::Enumerate:
      as_layout<layout::Enumerate>(iterator)->index += count;
      return true;
    case Iterates::Keys:
    case Iterates::Values:
    case Iterates::Items:
      for (Py_ssize_t i = 0; i < count + ended; ++i) Owned<>::steal(Py_TYPE(iterator)->tp_iternext(iterator));
      return !PyErr_Occurred();
    case Iterates::Zip:
    case Iterates::Unknown:
      break;
  }
  return true;
}

}  // namespace gramme::cpython
