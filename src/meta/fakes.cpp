// The pool of FakeTensorModes, and construction of meta tensors with a record's geometry.
#include "meta/fakes.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <memory>

#include "aten/python.h"
#include "base/imported.h"
#include "base/once.h"
#include "base/process.h"
#include "meta/batched.h"
#include "meta/ragged.h"
#include "meta/watch.h"
#include "meta/wrapped.h"
#include "torch/names.h"

namespace gramme::meta {
namespace {

constexpr size_t kKeptFakes = 4096;

struct State {
  std::vector<std::unique_ptr<Fakes>> pool;  // GIL: those that nobody borrows

  size_t size() const { return pool.size(); }
};
OfProcess<State> state;

std::vector<c10::SymInt> all(const std::vector<shape::SymInt>& sizes, const Fakes::Numbers& numbers) {
  std::vector<c10::SymInt> result;
  for (shape::SymInt size : sizes) result.push_back(numbers(size));
  return result;
}

/// The same with varying sizes, none of which is 0.
at::Tensor symbolic_meta_tensor(const Record& record, const Fakes::Numbers& numbers) {
  const auto dtype = static_cast<at::ScalarType>(record.dtype);
  const std::vector<c10::SymInt> sizes = all(record.sizes, numbers), strides = all(record.strides, numbers);
  const c10::SymInt offset = numbers(record.storage_offset);
  c10::SymInt elements = offset + 1;
  for (size_t d = 0; d < sizes.size(); ++d) elements += (sizes[d] - 1) * strides[d];
  at::Tensor tensor = at::empty({1}, at::device(at::kMeta).dtype(dtype));
  tensor.storage().unsafeGetStorageImpl()->set_nbytes(elements * static_cast<int64_t>(c10::elementSize(dtype)));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(c10::SymIntArrayRef(sizes), strides, offset);
  return tensor;
}

/// A tensor without data that has the record's sizes, strides and offset.
at::Tensor meta_tensor(const Record& record) {
  auto dtype = static_cast<at::ScalarType>(record.dtype);
  const std::vector<int64_t> sizes = known(record.sizes), strides = known(record.strides);
  const int64_t offset = known(record.storage_offset);
  size_t bytes = at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(dtype), offset);
  at::Tensor tensor =
      at::empty({static_cast<int64_t>(bytes / c10::elementSize(dtype))}, at::device(at::kMeta).dtype(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return tensor;
}

}  // namespace

c10::Device fake_device_of(const at::Tensor& tensor) {
  static PyObject* const name = of_torch::attribute(of_torch::FakeDevice);
  Owned<> fake = aten::object_of(innermost(tensor));
  Owned<> device = take(PyObject_GetAttr(fake.get(), name));
  return reinterpret_cast<THPDevice*>(device.get())->device;
}

void require_gradients(const at::Tensor& tensor, const Record& record) {
  if (record.requires_grad && record.is_leaf) tensor.set_requires_grad(true);
  if (record.requires_grad && !record.is_leaf)
    torch::autograd::set_history(tensor, c10::make_intrusive<torch::autograd::NotImplemented>("metadata"));
}

Fakes::Fakes() : mode_(new_watching_mode(nullptr)) {}

Fakes::Fakes(Environment& environment)
    : numbers_([&environment](shape::SymInt number) { return environment.number(number); }),
      mode_(new_watching_mode(environment.shape_env())) {}

Owned<> Fakes::fake(const Record* record, size_t n) {
  if (record->context) return make(*record);
  if (known_.size() > kKeptFakes) known_.clear();
  auto& fakes = known_[record];
  while (fakes.size() <= n) fakes.push_back(make(*record));
  return fakes[n];
}

Owned<> Fakes::fake_of(const void* tensor, const Record* record) {
  auto& [of, fake] = of_tensors_[tensor];
  if (of != record) fake = make(*record);
  of = record;
  return fake;
}

/// A new wrapper for each call, since its class may do anything to it.
Owned<> Fakes::make_wrapper(const Record& record) const {
  Owned<> inner = take(PyList_New(0));  // filled outside of the mode, which would infer what makes a fake
  for (const Record* part : record.parts) check(PyList_Append(inner.get(), make(*part).get()));
  EnteredFakes entered(mode_.get());
  Owned<> made = meta::make_wrapper(record, inner.get(), [this](shape::SymInt number) {
    return number.is_number() ? take(PyLong_FromLongLong(known(number))) : aten::object_of(numbers_(number));
  });
  const at::Tensor& tensor = aten::tensor_of(made.get());
  if (tensor.requires_grad() && tensor.is_leaf() && !record.requires_grad) tensor.set_requires_grad(false);
  require_gradients(tensor, record);
  return made;
}

Owned<> Fakes::make(const Record& record) const {
  if (record.context) return make_wrapper(record);
  c10::InferenceMode inference(record.is_inference);
  at::Tensor made = record.symbolic ? symbolic_meta_tensor(record, numbers_) : meta_tensor(record);
  if (record.is_conj) made._set_conj(true);
  if (record.is_neg) made._set_neg(true);
  Owned<> plain = aten::object_of(std::move(made));
  PyObject* const fake_type = of_torch::object(of_torch::FakeTensor);
  PyObject* arguments[] = {mode_.get(), plain.get(), device_object(record)};
  Owned<> fake = take(PyObject_Vectorcall(fake_type, arguments, 3, nullptr));
  require_gradients(aten::tensor_of(fake.get()), record);
  if (record.ragged) set_ragged(fake.get(), record.ragged);
  if (record.type == aten::parameter_type())
    check(PyObject_SetAttrString(fake.get(), of_torch::text(of_torch::IsParam), Py_True));
  return fake;
}

EnteredFakes::EnteredFakes(PyObject* mode, bool asks) : mode_(mode) {
  take(PyObject_CallMethod(mode, "__enter__", nullptr));
  using at::impl::PythonTorchFunctionTLS;
  functions_ = PythonTorchFunctionTLS::get_disabled_state();
  if (functions_ == at::impl::TorchFunctionDisabledState::ENABLED && !asks)
    PythonTorchFunctionTLS::set_disabled_state(at::impl::TorchFunctionDisabledState::SUBCLASSES_DISABLED);
}

EnteredFakes::~EnteredFakes() {
  ErrorState pending;
  at::impl::PythonTorchFunctionTLS::set_disabled_state(functions_);
  Owned<> done = Owned<>::steal(PyObject_CallMethod(mode_, "__exit__", "OOO", Py_None, Py_None, Py_None));
  if (!done) PyErr_Clear();
}

BorrowedFakes::BorrowedFakes() {
  if (state->pool.empty()) {
    fakes_ = new Fakes;
    return;
  }
  fakes_ = state->pool.back().release();
  state->pool.pop_back();
}

BorrowedFakes::~BorrowedFakes() { state->pool.emplace_back(fakes_); }

}  // namespace gramme::meta
