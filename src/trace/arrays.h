// NumPy's arrays in a capture, and the numbers of NumPy's types that are data: Objects of NumPy's classes over tensors,
// which share their memory. Whatever NumPy does with them is an operation on those tensors.
#pragma once
#include <unordered_map>
#include <unordered_set>

#include "value/value.h"

namespace gramme::trace {

class Trace;

struct Array {
  value::Tensor* tensor;
  bool writeable;
  // Where NumPy has a view that no tensor can be (its strides are negative), and `tensor` a copy: what it is a view of,
  // and its strides (a tuple, kept by the trace). It may be read while nobody writes to that memory.
  value::Tensor* view_of = nullptr;
  PyObject* strides = nullptr;
};

/// Kept with the scope.
struct Arrays {
  std::unordered_map<const value::Object*, Array> known;
  std::unordered_set<const value::Tensor*> given;  // tensors that the program has too, not only their array
};

/// What lies below the value, which was seen; null if it is no array, or one that no tensor can be laid over. The first
/// time it is asked about an array from before, that array's type, sizes and strides are guarded.
const Array* array_of(Trace& trace, Value* seen);

/// A new array over the tensor, or one of its numbers; the type is numpy.ndarray or numpy.float64 and its like.
value::Object* new_array(Trace& trace, Array array, PyTypeObject* type);

}  // namespace gramme::trace
