// NumPy's arrays, without headers of NumPy or torch in the includer.
#pragma once
#include <Python.h>

#include "base/ref.h"

namespace gramme::aten {

/// numpy.ndarray; null while nobody has imported NumPy.
PyTypeObject* array_type();
/// True for an array of that very class.
inline bool is_array(PyObject* object) { return Py_IS_TYPE(object, array_type()); }
/// True if the array may be written.
bool is_writeable(PyObject* array);
/// A new tensor over the array's memory, as torch.from_numpy() makes it; null, without an exception, for arrays of
/// which there is none: other dtypes, negative strides, unaligned data. Runs no Python.
Owned<> tensor_over(PyObject* array);

}  // namespace gramme::aten
