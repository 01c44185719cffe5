// What a guard compares of a tensor, and other facts about tensors. The includer needs no torch headers.
#pragma once
#include <Python.h>

#include <cstdint>
#include <string>
#include <vector>

#include "aten/tensor_type.h"
#include "base/mismatch.h"
#include "base/ref.h"

namespace gramme::aten {

/// Everything a guard on a tensor compares: its TensorType, and what that leaves out. Interned: equal signatures are
/// one pointer, valid until the process ends.
struct TensorSpec {
  /// Sizes and strides that are not compared are SymInt::any(). The storage offset is never compared: it has the value
  /// from when the spec was made, or 0 if anything varies.
  const TensorType* tensor;
  uint64_t keys;  // dispatch key set
  /// A view that is one of several results, was made with grad mode off or by a custom function, or views a leaf.
  /// Autograd refuses to record a write to it, and mostly to use it after its base was written.
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
/// The signature without requires_grad, is_leaf and special_view; a check reads half as much memory.
const TensorSpec* without_autograd(const TensorSpec& spec);
/// The signature without special_view, for segments that do not write the tensor.
const TensorSpec* without_views(const TensorSpec& spec);
/// The signature without these sizes and strides; bit d stands for dimension d. For a tensor with more than 64
/// dimensions everything is compared.
const TensorSpec* with_varying(const TensorSpec& spec, uint64_t sizes, uint64_t strides);
/// A size or stride of a tensor that matches a signature with that many dimensions. Plain loads.
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
/// Why the object does not match, for messages.
Mismatch explain_mismatch(const TensorSpec& spec, PyObject* object);
/// True if the storages of two tensors share a byte (conservative: extents of the views).
bool overlap(PyObject* a, PyObject* b);
/// True if two tensors have the same storage, even if no byte is shared.
bool same_storage(PyObject* a, PyObject* b);
/// The address of the tensor's storage; of the tensor itself if it has none.
const void* storage_of(PyObject* tensor);
/// True for a view whose base has come to require a gradient: its autograd metadata changes at its next use.
bool is_stale_view(PyObject* tensor);
/// True if the tensor's storage has become too small for its elements. Neither kernels nor fakes may be given such a
/// tensor.
bool reaches_past_storage(PyObject* tensor);
/// True if no two of the tensors objects[which[i]] share a byte. `known` holds the addresses from the last call that
/// returned true. A further call compares only addresses for the first `steady` tensors, whose sizes and strides are
/// fixed, and extents for the others. Tensors without data (meta) share nothing.
bool all_apart(PyObject* const* objects, const std::vector<uint32_t>& which, std::vector<uintptr_t>& known,
               size_t steady = SIZE_MAX);
/// The tensor's .grad as a new reference (None if it has none); runs no Python.
PyObject* grad_of(PyObject* tensor);
/// The number in a plain CPU tensor of dtype float32 or float64 without dimensions; false for any other tensor.
bool number_in(PyObject* tensor, double& number);
/// True if the object is a float, or a tensor that number_in() reads, between `low` and `high`; with `whole`, an
/// integral one.
bool holds_within(PyObject* object, double low, double high, bool whole);
/// A counter that rises with every in-place write.
uint32_t version_of(PyObject* tensor);

/// A tensor's version and a copy of its data and layout, which can be put back: to the program and to autograd, no
/// write happened since. A kernel that raises may have resized what it writes before.
class Content {
 public:
  /// Without `data` the version alone is kept. False with a Python error if the data cannot be copied.
  bool keep(PyObject* tensor, bool data);
  void put_back(PyObject* tensor) const;

 private:
  uint32_t version_ = 0;
  Owned<> copy_;
  std::vector<int64_t> sizes_, strides_;  // strided tensors only
  int64_t offset_ = 0;
};

}  // namespace gramme::aten
