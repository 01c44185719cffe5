// Reads NumPy arrays through a copy of the start of their struct, which NumPy's C interface fixes; a tensor over an
// array's memory comes from PyTorch's converter.
#include "aten/arrays.h"

#include <ATen/ATen.h>
#include <torch/csrc/utils/tensor_numpy.h>

#include <exception>

#include "aten/python.h"
#include "base/imported.h"
#include "base/once.h"

namespace gramme::aten {
namespace {

/// The start of an array object, as NumPy's C interface promises it.
struct ArrayObject {
  PyObject_HEAD char* data;
  int dimensions;
  Py_ssize_t *sizes, *strides;
  PyObject *base, *description;
  int flags;
};
constexpr int kAligned = 0x0100, kWriteable = 0x0400;

}  // namespace

PyTypeObject* array_type() {
  return once([] { return known_module("numpy") ? imported_type("numpy", "ndarray") : nullptr; });
}

bool is_writeable(PyObject* array) { return reinterpret_cast<ArrayObject*>(array)->flags & kWriteable; }

Owned<> tensor_over(PyObject* array) {
  if (!(reinterpret_cast<ArrayObject*>(array)->flags & kAligned)) return {};
  try {
    return object_of(torch::utils::tensor_from_numpy(array, /*warn_if_not_writeable=*/false));
  } catch (const std::exception&) {
    PyErr_Clear();
    return {};
  }
}

}  // namespace gramme::aten
