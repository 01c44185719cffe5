// Questions about tensors that guards and replay ask.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/python_variable.h>

#include "aten/spec.h"

namespace gramme::aten {
namespace {

/// The bytes of storage a view can touch: [begin, end).
struct Extent {
  uintptr_t begin, end;
};

Extent extent_of(const at::Tensor& tensor) {
  auto data = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
  int64_t low = 0, high = 1;
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.size(d) == 0) return {data, data};
    int64_t reach = (tensor.size(d) - 1) * tensor.stride(d);
    (reach < 0 ? low : high) += reach;
  }
  auto item = static_cast<int64_t>(tensor.element_size());
  return {data + low * item, data + high * item};
}

bool has_plain_storage(const at::Tensor& tensor) {
  return tensor.layout() == c10::kStrided && tensor.unsafeGetTensorImpl()->has_storage() &&
         !tensor.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python);
}

}  // namespace

bool overlap(PyObject* a, PyObject* b) {
  const at::Tensor &x = THPVariable_Unpack(a), &y = THPVariable_Unpack(b);
  if (x.is_same(y)) return true;
  if (!has_plain_storage(x) || !has_plain_storage(y)) return false;
  const auto &s = x.storage(), &t = y.storage();
  // Two storages can still lie over each other (from_blob, shared memory), so addresses decide; but those of tensors
  // without data (meta) mean nothing.
  bool one_storage = s.unsafeGetStorageImpl() == t.unsafeGetStorageImpl();
  if (!one_storage && (!s.data() || !t.data())) return false;
  Extent p = extent_of(x), q = extent_of(y);
  return p.begin < q.end && q.begin < p.end;
}

PyObject* grad_of(PyObject* tensor) {
  // Not Tensor::grad(), which warns when the tensor is no leaf.
  const auto* meta = THPVariable_Unpack(tensor).unsafeGetTensorImpl()->autograd_meta();
  if (!meta || !meta->grad().defined()) Py_RETURN_NONE;
  return THPVariable_Wrap(meta->grad());
}

uint32_t version_of(PyObject* tensor) {
  const at::Tensor& self = THPVariable_Unpack(tensor);
  return self.is_inference() ? 0 : static_cast<uint32_t>(self._version());
}

}  // namespace gramme::aten
