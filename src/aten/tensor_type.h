// A tensor's metadata: everything known of it without its data. The includer needs no torch headers.
//
// Guards (spec.h), captures (meta/record.h) and tapes (native/recorder.h) all refer to this one description. Interned:
// equal descriptions are one object, which lives as long as the process, so comparing addresses is enough.
#pragma once
#include <Python.h>

#include <cstdint>
#include <string>
#include <vector>

#include "shape/symint.h"

namespace at {
class Tensor;
}

namespace gramme::aten {

struct TensorType;

/// The fields of the description. Two are equal if all their fields are.
struct TensorDescription {
  PyTypeObject* type;  // torch.Tensor, Parameter or a subclass (a fake's own class never shows); held
  int8_t dtype;        // at::ScalarType
  int8_t device_type;  // at::DeviceType
  int8_t device_index;
  int8_t layout;  // at::Layout
  bool requires_grad, is_leaf, is_inference, is_conj, is_neg;
  bool opaque;                                // only the tensor's class knows its sizes: there are none here
  std::vector<shape::SymInt> sizes, strides;  // no strides if the layout is a sparse one
  shape::SymInt storage_offset;
  // Inside a transform of torch.func: the tensor that this one wraps at the transform's level. Under torch.vmap that
  // one has a dimension more, `batch_dim`, which the sizes above leave out; transforms for gradients or tangents have
  // none (-1).
  const TensorType* inner;
  int32_t level, batch_dim;
  // For a subclass that wraps tensors: those tensors, and what else its class keeps, one object for equal ones (held).
  std::vector<const TensorType*> parts;
  PyObject* context;
  // For offsets or lengths from which a jagged tensor of the capture has its ragged size: that size's number, other
  // than 0. Jagged tensors with the same number have equal ragged sizes.
  int32_t ragged;

  int64_t dim() const { return static_cast<int64_t>(sizes.size()); }
  bool operator==(const TensorDescription&) const = default;
};

/// The one object of a description.
struct TensorType : TensorDescription {
  uint32_t id;    // dense; stands for the type in memo keys
  bool symbolic;  // a size, stride or offset is an expression, here or in a wrapped tensor

  bool operator==(const TensorType&) const = delete;  // compare addresses, or descriptions
  std::string print() const;                          // "Tensor float32[2, 3] strides [3, 1] cpu requires_grad"
};

/// The interned description that equals this one. Needs the GIL only for a subclass, or with a context.
const TensorType* interned(TensorDescription described);

/// True for a nested tensor of the jagged layout: PyTorch's Python class, whose sizes only that class knows. The sizes
/// of its inner tensors and their identity determine them.
bool is_jagged(const at::Tensor& tensor);

/// The tensor as kernels see it: a torch.Tensor that needs no gradient; opaque unless `whole`. Needs no GIL.
const TensorType* type_below_autograd(const at::Tensor& tensor, bool whole);

/// The same type with this requires_grad and is_leaf.
const TensorType* with_requires_grad(const TensorType* type, bool requires_grad, bool is_leaf);

}  // namespace gramme::aten
