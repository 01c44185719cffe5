// NumPy arrays, and tensors over their memory. The includer needs no header of NumPy or torch.
#pragma once
#include <Python.h>

#include "base/ref.h"

namespace gramme::aten {

/// numpy.ndarray; null while nobody has imported NumPy.
PyTypeObject* array_type();
/// True for a numpy.ndarray itself, not for an instance of a subclass.
inline bool is_array(PyObject* object) { return Py_IS_TYPE(object, array_type()); }
/// True if the array may be written.
bool is_writeable(PyObject* array);
/// A new tensor over the array's memory, as torch.from_numpy() makes it. Null, without an exception, where torch has
/// none: other dtypes, negative strides, unaligned data. Runs no Python.
Owned<> tensor_over(PyObject* array);

}  // namespace gramme::aten
