// Iterators over builtin containers, looked into by their layout: what they give next, without advancing them.
#pragma once
#include <Python.h>

#include "base/ref.h"

namespace gramme::cpython {

/// What an iterator of exactly that type goes through.
enum class Iterates : uint8_t { Unknown, List, Backwards, Tuple, Range, Keys, Values, Items, Enumerate, Zip };
Iterates iterates(PyObject* iterator);

enum class Next : uint8_t {
  Item,
  End,
  Unknown,  // it raises, or is in a state that is not modelled
};
/// What an iterator gives after some others. Of a dict's items `item` is the key and `value` the other; of an enumerate
/// `item` is the number, whatever comes of its iterator. Nothing of a zip.
struct Ahead {
  Next next = Next::Unknown;
  PyObject *item = nullptr, *value = nullptr;  // borrowed
  Owned<> made = {};                           // keeps an item that was made to be looked at: a number
};
Ahead look_ahead(PyObject* iterator, Py_ssize_t passed);

/// Where the iterator keeps what it goes through, of a zip the tuple of its iterators; null there once it was at its
/// end. Null for other iterators.
PyObject** iterated_address(PyObject* iterator);

/// An iterator over a list or tuple, or backwards, has given all.
void end_list_iterator(PyObject* iterator);
/// Takes so many items, and `ended`: asks once more. False with an error set.
bool advance_iterator(PyObject* iterator, Py_ssize_t count, bool ended);

}  // namespace gramme::cpython
