#include "meta/fakes.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/python_variable.h>

#include <memory>

#include "base/imported.h"
#include "base/once.h"
#include "meta/watch.h"

namespace gramme::meta {
namespace {

constexpr size_t kKeptFakes = 4096;

std::vector<std::unique_ptr<Fakes>>& pool() {
  static auto* pool = new std::vector<std::unique_ptr<Fakes>>;  // never destroyed: it holds Python objects
  return *pool;
}

/// A tensor without data that has the record's sizes, strides and offset.
at::Tensor meta_tensor(const Record& record) {
  auto dtype = static_cast<at::ScalarType>(record.dtype);
  size_t bytes =
      at::detail::computeStorageNbytes(record.sizes, record.strides, c10::elementSize(dtype), record.storage_offset);
  at::Tensor tensor =
      at::empty({static_cast<int64_t>(bytes / c10::elementSize(dtype))}, at::device(at::kMeta).dtype(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(record.sizes, record.strides, record.storage_offset);
  if (record.is_conj) tensor._set_conj(true);
  if (record.is_neg) tensor._set_neg(true);
  return tensor;
}

}  // namespace

Fakes::Fakes() : mode_(new_watching_mode()) {}

Owned<> Fakes::fake(const Record* record, size_t n) {
  if (known_.size() > kKeptFakes) known_.clear();
  auto& fakes = known_[record];
  while (fakes.size() <= n) fakes.push_back(make(*record));
  return fakes[n];
}

Owned<> Fakes::make(const Record& record) const {
  c10::InferenceMode inference(record.is_inference);
  Owned<> plain = take(THPVariable_Wrap(meta_tensor(record)));
  PyObject* const fake_type = once([] { return imported("torch._subclasses.fake_tensor", "FakeTensor").release(); });
  PyObject* arguments[] = {mode_.get(), plain.get(), device_object(record)};
  Owned<> fake = take(PyObject_Vectorcall(fake_type, arguments, 3, nullptr));
  const at::Tensor& tensor = THPVariable_Unpack(fake.get());
  if (record.requires_grad && record.is_leaf) tensor.set_requires_grad(true);
  if (record.requires_grad && !record.is_leaf)
    torch::autograd::set_history(tensor, c10::make_intrusive<torch::autograd::NotImplemented>("metadata"));
  if (record.type == reinterpret_cast<PyTypeObject*>(ParameterClass))
    check(PyObject_SetAttrString(fake.get(), "_is_param", Py_True));
  return fake;
}

BorrowedFakes::BorrowedFakes() {
  if (pool().empty()) {
    fakes_ = new Fakes;
    return;
  }
  fakes_ = pool().back().release();
  pool().pop_back();
}

BorrowedFakes::~BorrowedFakes() { pool().emplace_back(fakes_); }

}  // namespace gramme::meta
