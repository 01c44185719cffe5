// What a guard compares of a tensor, and what else is asked of tensors, without torch headers in the includer.
#pragma once
#include <Python.h>

#include <cstdint>
#include <string>
#include <vector>

#include "aten/tensor_type.h"
#include "base/mismatch.h"
#include "base/ref.h"

namespace gramme::aten {

/// Everything a guard on a tensor compares: its type, and what no type says. Interned: equal signatures are one
/// pointer, valid until the process ends.
struct TensorSpec {
  /// Sizes and strides that are not compared are SymInt::any(). The offset, which is not compared, is that of the time
  /// the spec was made, 0 if anything varies.
  const TensorType* tensor;
  uint64_t keys;  // dispatch key set
  /// One of several views that a call returned, made with grad mode off or by a custom function, or of a leaf: autograd
  /// refuses to write it where it records that, and mostly to use it after its base was written.
  bool special_view = false;
  bool compares_views = true;     // special_view
  bool compares_autograd = true;  // requires_grad, is_leaf and special_view
  /// Bit d: dimension d may have any size, any stride.
  uint64_t varying_sizes = 0, varying_strides = 0;
  bool varies() const { return (varying_sizes | varying_strides) != 0; }
  std::string print() const;  // "Tensor float32[2, ?] strides [?, 1] cpu"
};

/// The interned signature of a tensor as it is now.
const TensorSpec* tensor_spec(PyObject* tensor);
/// The same signature for whoever does not care about requires_grad, is_leaf and special_view; half the memory to look
/// at.
const TensorSpec* without_autograd(const TensorSpec& spec);
/// The same signature for whoever does not write the tensor.
const TensorSpec* without_views(const TensorSpec& spec);
/// The same signature for whoever does not care about these sizes and strides: bit d stands for dimension d. Of a
/// tensor with more than 64 dimensions everything is compared.
const TensorSpec* with_varying(const TensorSpec& spec, uint64_t sizes, uint64_t strides);
/// One number of a tensor that matches a signature with that many dimensions. Plain loads.
int64_t size_at(PyObject* tensor, int64_t dim);
int64_t stride_at(PyObject* tensor, int64_t dim);
int64_t offset_of(PyObject* tensor);
/// True if the tensor still has the signature. 4 to 9 ns, runs no Python.
bool matches(const TensorSpec& spec, PyObject* object);
/// One tensor of many: objects[index] against a signature.
struct TensorCheck {
  uint32_t index;
  const TensorSpec* spec;
};
/// True if they all match. Cheaper than one call each.
bool all_match(const TensorCheck* checks, size_t count, PyObject* const* objects);
/// Why not, for messages.
Mismatch explain_mismatch(const TensorSpec& spec, PyObject* object);
/// True if the storages of two tensors share a byte (conservative: extents of the views).
bool overlap(PyObject* a, PyObject* b);
/// True if two tensors lie in one storage, wherever.
bool same_storage(PyObject* a, PyObject* b);
/// Which one that is; a tensor without one is its own.
const void* storage_of(PyObject* tensor);
/// A view whose base came to need a gradient: what autograd says of it changes when it is used next.
bool is_stale_view(PyObject* tensor);
/// True if its storage has become too small for its elements. Kernels and fakes may not look at such a tensor.
bool reaches_past_storage(PyObject* tensor);
/// True if no two of the tensors objects[which[i]] share a byte. `known` holds where they lay when they last did not:
/// asking again compares the addresses of the first `steady`, whose sizes and strides stay, and the extents of the
/// others. Tensors without data (meta) are not looked at.
bool all_apart(PyObject* const* objects, const std::vector<uint32_t>& which, std::vector<uintptr_t>& known,
               size_t steady = SIZE_MAX);
/// The tensor's .grad as a new reference (None if it has none); runs no Python.
PyObject* grad_of(PyObject* tensor);
/// The number in a plain tensor of 32 or 64 bit floats on the CPU without dimensions; false for any other.
bool number_in(PyObject* tensor, double& number);
/// True if the object is a float, or a tensor that holds such a number, between the two, and whole if it must be.
bool holds_within(PyObject* object, double low, double high, bool whole);
/// A counter that rises with every in-place write.
uint32_t version_of(PyObject* tensor);

/// A tensor's content, and how it lies in its storage, put back out of autograd's sight: kernels that raise may have
/// given what they write other sizes before.
class Content {
 public:
  /// False with a Python error if it cannot be copied.
  bool copy(PyObject* tensor);
  void put_back(PyObject* tensor) const;

 private:
  Owned<> copy_;
  std::vector<int64_t> sizes_, strides_;  // of strided tensors
  int64_t offset_ = 0;
};

}  // namespace gramme::aten
