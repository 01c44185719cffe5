#include "meta/record.h"

#include <ATen/ATen.h>
#include <ATen/functorch/BatchedTensorImpl.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/autograd/python_variable.h>

#include <deque>
#include <map>
#include <unordered_set>

#include "meta/fakes.h"

namespace gramme::meta {
namespace {

struct Hash {
  size_t operator()(const Record* r) const {
    size_t hash = reinterpret_cast<size_t>(r->type);
    auto add = [&hash](int64_t value) { hash = (hash ^ static_cast<size_t>(value)) * 0x9e3779b97f4a7c15u; };
    add(r->dtype | r->device_type << 8 | r->device_index << 16 | r->layout << 24);
    add(r->requires_grad | r->is_leaf << 1 | r->is_inference << 2 | r->is_conj << 3 | r->is_neg << 4);
    for (int64_t size : r->sizes) add(size);
    for (int64_t stride : r->strides) add(stride);
    add(r->storage_offset);
    add(reinterpret_cast<int64_t>(r->inner) ^ r->level ^ int64_t{r->batch_dim} << 8);
    return hash ^ hash >> 29;
  }
};

struct Equal {
  bool operator()(const Record* a, const Record* b) const {
    auto members = [](const Record& r) {
      return std::tie(r.type, r.dtype, r.device_type, r.device_index, r.layout, r.requires_grad, r.is_leaf,
                      r.is_inference, r.is_conj, r.is_neg, r.sizes, r.strides, r.storage_offset, r.inner, r.level,
                      r.batch_dim);
    };
    return members(*a) == members(*b);
  }
};

const Record* intern(Record&& record) {
  static auto* pool = new std::deque<Record>;  // records live as long as the process
  static auto* table = new std::unordered_set<const Record*, Hash, Equal>;
  auto found = table->find(&record);
  if (found != table->end()) return *found;
  record.id = static_cast<uint32_t>(pool->size());
  share(reinterpret_cast<PyObject*>(record.type))
      .release();  // for good: another type at its address would look like it
  pool->push_back(std::move(record));
  table->insert(&pool->back());
  return &pool->back();
}

}  // namespace

const Record* record_of_tensor(const at::Tensor& tensor, c10::Device device, PyTypeObject* type) {
  Record r{};
  r.type = type;
  r.dtype = static_cast<int8_t>(tensor.scalar_type());
  r.device_type = static_cast<int8_t>(device.type());
  r.device_index = device.index();
  r.layout = static_cast<int8_t>(tensor.layout());
  r.requires_grad = tensor.requires_grad();
  r.is_leaf = tensor.is_leaf();
  r.is_inference = tensor.is_inference();
  r.is_conj = tensor.is_conj();
  r.is_neg = tensor.is_neg();
  r.sizes = tensor.sizes().vec();
  if (tensor.layout() == c10::kStrided) {
    r.strides = tensor.strides().vec();
    r.storage_offset = tensor.storage_offset();
  }
  if (const auto* batched = at::functorch::maybeGetBatchedImpl(tensor)) {
    r.inner = record_of_tensor(batched->value(), device, type);
    r.level = static_cast<int32_t>(batched->level());
    r.batch_dim = static_cast<int32_t>(batched->bdim());
  }
  return intern(std::move(r));
}

const Record* record_of(PyObject* tensor) {
  const at::Tensor& self = THPVariable_Unpack(tensor);
  return record_of_tensor(self, self.device(), Py_TYPE(tensor));
}

const Record* with_requires_grad(const Record* record, bool requires_grad, bool is_leaf) {
  if (record->requires_grad == requires_grad && record->is_leaf == is_leaf) return record;
  Record changed = *record;
  changed.requires_grad = requires_grad;
  changed.is_leaf = is_leaf;
  return intern(std::move(changed));
}

const Record* with_type(const Record* record, PyTypeObject* type) {
  if (record->type == type) return record;
  Record changed = *record;
  changed.type = type;
  return intern(std::move(changed));
}

PyObject* dtype_object(const Record& record) {
  return reinterpret_cast<PyObject*>(torch::getTHPDtype(static_cast<at::ScalarType>(record.dtype)));
}

PyObject* layout_object(const Record& record) {
  return reinterpret_cast<PyObject*>(torch::getTHPLayout(static_cast<at::Layout>(record.layout)));
}

PyObject* device_object(const Record& record) {
  static auto* devices = new std::map<std::pair<int8_t, int8_t>, PyObject*>;
  PyObject*& device = (*devices)[{record.device_type, record.device_index}];
  if (!device)
    device = take(THPDevice_New(c10::Device(static_cast<c10::DeviceType>(record.device_type), record.device_index)))
                 .release();
  return device;
}

bool is_floating_point(const Record& record) { return c10::isFloatingType(static_cast<at::ScalarType>(record.dtype)); }
bool is_complex(const Record& record) { return c10::isComplexType(static_cast<at::ScalarType>(record.dtype)); }

}  // namespace gramme::meta
