// Instances of tuple types: named tuples, torch.Size, structure sequences.
#pragma once
#include "base/ref.h"

namespace gramme {

/// True for the type of a named tuple, which takes its items one by one; _make() takes a sequence of them.
inline bool is_named_tuple(PyObject* type) { return PyObject_HasAttrString(type, "_make"); }

/// An instance of the tuple type with these items.
inline Owned<> tuple_of_type(PyObject* type, PyObject* items) {
  if (is_named_tuple(type)) return take(PyObject_CallMethod(type, "_make", "O", items));
  return take(PyObject_CallOneArg(type, items));
}

}  // namespace gramme
