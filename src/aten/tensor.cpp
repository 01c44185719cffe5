// Facts about tensors that guards and replay need: shared storage, gradients, versions, saved content.
#include <ATen/ATen.h>

#include <cmath>

#include "aten/extent.h"
#include "aten/python.h"
#include "aten/spec.h"

namespace gramme::aten {
bool overlap(PyObject* a, PyObject* b) {
  const at::Tensor &x = tensor_of(a), &y = tensor_of(b);
  if (x.is_same(y)) return true;
  if (!has_plain_storage(x) || !has_plain_storage(y)) return false;
  const auto &s = x.storage(), &t = y.storage();
  // Two storages can overlap (from_blob, shared memory), so addresses decide; those of tensors without data (meta) mean
  // nothing.
  bool one_storage = s.unsafeGetStorageImpl() == t.unsafeGetStorageImpl();
  if (!one_storage && (!s.data() || !t.data())) return false;
  Extent p = extent_of(x), q = extent_of(y);
  return p.begin < q.end && q.begin < p.end;
}

const void* storage_of(PyObject* tensor) {
  const at::Tensor& of = tensor_of(tensor);
  if (has_plain_storage(of)) return of.storage().unsafeGetStorageImpl();
  return of.unsafeGetTensorImpl();
}

bool same_storage(PyObject* a, PyObject* b) { return storage_of(a) == storage_of(b); }

PyObject* grad_of(PyObject* tensor) {
  // Not Tensor::grad(), which warns when the tensor is no leaf.
  const auto* meta = tensor_of(tensor).unsafeGetTensorImpl()->autograd_meta();
  if (!meta || !meta->grad().defined()) Py_RETURN_NONE;
  try {
    return object_of(meta->grad()).release();
  } catch (const PythonError&) {
    return nullptr;
  }
}

bool number_in(PyObject* tensor, double& number) {
  if (!is_tensor(tensor)) return false;
  const at::Tensor& self = tensor_of(tensor);
  if (!has_plain_storage(self) || !self.is_cpu() || self.dim() != 0 || self.is_conj() || self.is_neg()) return false;
  const bool wide = self.scalar_type() == at::kDouble;
  if ((!wide && self.scalar_type() != at::kFloat) || !self.storage().data()) return false;
  const void* data = self.const_data_ptr();
  number = wide ? *static_cast<const double*>(data) : *static_cast<const float*>(data);
  return true;
}

[[gnu::hot]] bool holds_within(PyObject* object, double low, double high, bool whole) {
  double number = 0;
  const bool found =
      PyFloat_CheckExact(object) ? (number = PyFloat_AS_DOUBLE(object), true) : number_in(object, number);
  return found && low <= number && number <= high && (!whole || number == std::trunc(number));
}

uint32_t version_of(PyObject* tensor) {
  const at::Tensor& self = tensor_of(tensor);
  return self.is_inference() ? 0 : static_cast<uint32_t>(self._version());
}

bool Content::keep(PyObject* tensor, bool data) {
  version_ = version_of(tensor);
  if (!data) return true;
  at::AutoDispatchBelowADInplaceOrView below;
  const at::Tensor& self = tensor_of(tensor);
  try {
    copy_ = object_of(self.clone());
  } catch (const std::exception& error) {  // out of memory
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return false;
  }
  if (!has_plain_storage(self)) return true;
  sizes_ = self.sizes().vec();
  strides_ = self.strides().vec();
  offset_ = self.storage_offset();
  return true;
}

void Content::put_back(PyObject* tensor) const {
  at::AutoDispatchBelowADInplaceOrView below;
  const at::Tensor& self = tensor_of(tensor);
  if (copy_) {
    const at::Tensor& content = tensor_of(copy_.get());
    if (has_plain_storage(content) && (self.sizes() != sizes_ || self.strides() != strides_))
      self.unsafeGetTensorImpl()->set_sizes_and_strides(sizes_, strides_, offset_);
    self.copy_(content);
  }
  if (self.is_inference()) return;
  c10::VariableVersion version = self.unsafeGetTensorImpl()->version_counter();  // shares the count
  version.set_version(version_);
}

}  // namespace gramme::aten
