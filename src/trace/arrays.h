// NumPy arrays and NumPy scalars that are data, in a capture: Objects of NumPy's classes over tensors that share their
// memory. What NumPy does with them becomes an operation on those tensors.
#pragma once
#include <unordered_map>
#include <unordered_set>

#include "value/value.h"

namespace gramme::trace {

class Trace;

struct Array {
  value::Tensor* tensor;
  bool writeable;
  // For a NumPy view with negative strides, which no tensor can be: `tensor` is a copy, these are the tensor it views
  // and its strides (a tuple, kept by the trace). The copy may be read until that memory is written.
  value::Tensor* view_of = nullptr;
  PyObject* strides = nullptr;
};

/// Kept with the scope.
struct Arrays {
  std::unordered_map<const value::Object*, Array> known;
  std::unordered_set<const value::Tensor*> given;  // tensors that the program has too, not only their array
};

/// The tensor under a seen value; null if it is no array, or one that no tensor can share memory with. The first
/// request for an existing array guards its type, sizes and strides.
const Array* array_of(Trace& trace, Value* seen);

/// A new array over the tensor, or one of its numbers; the type is numpy.ndarray or numpy.float64 and its like.
value::Object* new_array(Trace& trace, Array array, PyTypeObject* type);

}  // namespace gramme::trace
