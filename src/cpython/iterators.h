// Looks at the next items of iterators over builtin containers without advancing them.
#pragma once
#include <Python.h>

#include "base/ref.h"

namespace gramme::cpython {

/// What an iterator of exactly such a type iterates over.
enum class Iterates : uint8_t { Unknown, List, Backwards, Tuple, Range, Keys, Values, Items, Enumerate, Zip };
Iterates iterates(PyObject* iterator);

enum class Next : uint8_t {
  Item,
  End,
  Unknown,  // it would raise, or is in a state that is not modelled
};
/// An item of an iterator after some others. For a dict's items, `item` is the key and `value` the value; for an
/// enumerate, `item` is the number, independent of its iterator. Not available for a zip.
struct Ahead {
  Next next = Next::Unknown;
  PyObject *item = nullptr, *value = nullptr;  // borrowed
  Owned<> made = {};                           // owns an item made for the look: a number
};
Ahead look_ahead(PyObject* iterator, Py_ssize_t passed);

/// The address where the iterator keeps its container, or a zip the tuple of its iterators; null is stored there after
/// its end. Null for other iterators.
PyObject** iterated_address(PyObject* iterator);

/// Marks an iterator over a list or tuple, or backwards, as exhausted.
void end_list_iterator(PyObject* iterator);
/// Advances by so many items and, if `ended`, past the end. False with an error set.
bool advance_iterator(PyObject* iterator, Py_ssize_t count, bool ended);

}  // namespace gramme::cpython
