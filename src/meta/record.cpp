// Making records: of real tensors, with symbolic geometry, and variants of others.
#include "meta/record.h"

#include <ATen/ATen.h>
#include <ATen/functorch/BatchedTensorImpl.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Layout.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "aten/python.h"
#include "base/error.h"
#include "base/process.h"
#include "meta/batched.h"
#include "meta/fakes.h"

namespace gramme::meta {
using aten::interned;

const Record* record_of_tensor(const at::Tensor& tensor, c10::Device device, PyTypeObject* type,
                               Environment* environment) {
  aten::TensorDescription r{};
  r.type = type;
  r.dtype = static_cast<int8_t>(tensor.scalar_type());
  r.device_type = static_cast<int8_t>(device.type());
  r.device_index = device.index();
  r.opaque = aten::is_jagged(tensor);
  r.layout = static_cast<int8_t>(r.opaque ? c10::kJagged : tensor.layout());
  r.requires_grad = tensor.requires_grad();
  r.is_leaf = tensor.is_leaf();
  r.is_inference = tensor.is_inference();
  r.is_conj = tensor.is_conj();
  r.is_neg = tensor.is_neg();
  if (r.opaque) return interned(std::move(r));
  if (environment) {
    for (const c10::SymInt& size : tensor.sym_sizes()) r.sizes.push_back(environment->read(size));
    for (const c10::SymInt& stride : tensor.sym_strides()) r.strides.push_back(environment->read(stride));
    r.storage_offset = environment->read(tensor.sym_storage_offset());
  } else {
    r.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
    if (tensor.layout() == c10::kStrided) {
      r.strides.assign(tensor.strides().begin(), tensor.strides().end());
      r.storage_offset = tensor.storage_offset();
    }
  }
  if (const auto* batched = at::functorch::maybeGetBatchedImpl(tensor)) {
    r.inner = record_of_tensor(batched->value(), device, type, environment);
    r.level = static_cast<int32_t>(batched->level());
    r.batch_dim = static_cast<int32_t>(batched->bdim());
  } else if (tracks_gradients(tensor)) {
    r.inner = record_of_tensor(unwrap(tensor), device, type, environment);
    r.level = level_of(tensor);
    r.batch_dim = -1;
  }
  return interned(std::move(r));
}

const Record* record_of(PyObject* tensor) {
  const at::Tensor& self = aten::tensor_of(tensor);
  return record_of_tensor(self, self.device(), Py_TYPE(tensor));
}

const Record* record_of(PyObject* tensor, const aten::TensorSpec& spec) {
  const at::Tensor& self = aten::tensor_of(tensor);
  const bool wraps = at::functorch::maybeGetBatchedImpl(self) || tracks_gradients(self);
  return !wraps && !spec.varies() && aten::is_exact_tensor_type(spec.tensor->type) ? spec.tensor : record_of(tensor);
}

namespace {

/// Expresses a record's strides, smallest first, as products of a size and its stride where that matches. Of equal
/// strides, a dimension of size one counts as the inner one, as in a new tensor.
class Strides {
 public:
  Strides(const Record& record, const std::vector<shape::SymInt>& sizes, shape::Assumptions& assumptions)
      : sizes_(sizes), assumptions_(assumptions), now_(known(record.strides)), result_(now_.size()) {
    const std::vector<int64_t> sizes_now = known(record.sizes);
    std::vector<size_t> order(now_.size());
    for (size_t d = 0; d < order.size(); ++d) order[d] = d;
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::tuple(now_[a], sizes_now[a], b) < std::tuple(now_[b], sizes_now[b], a);
    });
    for (size_t d : order) place(d, stride_of(d), sizes_now[d]);
  }
  std::vector<shape::SymInt> take() { return std::move(result_); }

 private:
  shape::SymInt stride_of(size_t d) {
    const auto spanned = spans_.find(now_[d]);
    if (now_[d] != 0 && spanned != spans_.end()) return spanned->second;
    return now_[d] <= 1 ? shape::SymInt(now_[d]) : new_symbol(now_[d]);
  }
  void place(size_t d, shape::SymInt stride, int64_t size_now) {
    result_[d] = stride;
    if (const auto span = product(sizes_[d], stride)) spans_.insert_or_assign(size_now * now_[d], *span);
  }
  shape::SymInt new_symbol(int64_t now) {
    return shape::SymInt(assumptions_.add_symbol({2, shape::Range::kNoHigh}, now));
  }

  const std::vector<shape::SymInt>& sizes_;
  shape::Assumptions& assumptions_;
  std::vector<int64_t> now_;
  std::vector<shape::SymInt> result_;
  std::map<int64_t, shape::SymInt> spans_;  // products of size and stride so far, by present value
};

}  // namespace

const Record* symbolic_record(const Record* record, const std::vector<shape::Expr>& sizes,
                              shape::Assumptions& assumptions) {
  aten::TensorDescription changed = *record;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d]) changed.sizes[d] = shape::SymInt(sizes[d]);
  changed.strides = Strides(*record, changed.sizes, assumptions).take();
  if (known(record->storage_offset) > 0)
    changed.storage_offset =
        shape::SymInt(assumptions.add_symbol({0, shape::Range::kNoHigh}, known(record->storage_offset)));
  return interned(std::move(changed));
}

const Record* mapped(const Record* record, const std::function<shape::SymInt(shape::SymInt)>& map) {
  aten::TensorDescription changed = *record;
  for (shape::SymInt& size : changed.sizes) size = map(size);
  for (shape::SymInt& stride : changed.strides) stride = map(stride);
  changed.storage_offset = map(changed.storage_offset);
  if (changed.inner) changed.inner = mapped(changed.inner, map);
  for (const Record*& part : changed.parts) part = mapped(part, map);
  return interned(std::move(changed));
}

bool differ_in_gradients_only(const Record* a, const Record* b) {
  if (a == b) return true;
  if (!a || !b) return false;
  aten::TensorDescription changed = *b;
  changed.requires_grad = a->requires_grad;
  changed.is_leaf = a->is_leaf;
  changed.inner = a->inner;
  return changed == static_cast<const aten::TensorDescription&>(*a) && differ_in_gradients_only(a->inner, b->inner);
}

bool gains(const Record* before, const Record* after) {
  for (; before && after; before = before->inner, after = after->inner)
    if (after->requires_grad && !before->requires_grad) return true;
  return false;
}

const Record* gained(const Record* view, const Record* before, const Record* after) {
  const Record* inner = view->inner ? gained(view->inner, before, after) : nullptr;
  bool here = false;
  for (; before && after; before = before->inner, after = after->inner)
    here |= before->level == view->level && after->requires_grad && !before->requires_grad;
  if (inner == view->inner && (!here || (view->requires_grad && !view->is_leaf))) return view;
  aten::TensorDescription changed = *view;
  changed.inner = inner;
  changed.requires_grad |= here;
  changed.is_leaf &= !here;
  return interned(std::move(changed));
}

const Record* with_type(const Record* record, PyTypeObject* type) {
  if (record->type == type) return record;
  aten::TensorDescription changed = *record;
  changed.type = type;
  return interned(std::move(changed));
}

const Record* with_geometry(const Record* record, std::vector<shape::SymInt> sizes, std::vector<shape::SymInt> strides,
                            shape::SymInt offset) {
  aten::TensorDescription changed = *record;
  changed.sizes = std::move(sizes);
  changed.strides = std::move(strides);
  changed.storage_offset = offset;
  changed.ragged = 0;
  return interned(std::move(changed));
}

const Record* with_ragged(const Record* record, int32_t number) {
  if (record->ragged == number) return record;
  aten::TensorDescription changed = *record;
  changed.ragged = number;
  return interned(std::move(changed));
}

const Record* with_parts(const Record* record, std::vector<const Record*> parts, PyObject* context) {
  aten::TensorDescription changed = *record;
  changed.parts = std::move(parts);
  changed.context = context;
  return interned(std::move(changed));
}

PyObject* dtype_object(const Record& record) {
  return reinterpret_cast<PyObject*>(torch::getTHPDtype(static_cast<at::ScalarType>(record.dtype)));
}

bool is_strided(const Record& record) { return static_cast<at::Layout>(record.layout) == at::Layout::Strided; }

PyObject* layout_object(const Record& record) {
  return reinterpret_cast<PyObject*>(torch::getTHPLayout(static_cast<at::Layout>(record.layout)));
}

namespace {
struct State {
  std::map<std::pair<int8_t, int8_t>, Owned<>> devices;  // GIL: by type and index
};
OfProcess<State> state;
}  // namespace

PyObject* device_object(const Record& record) {
  Owned<>& device = state->devices[{record.device_type, record.device_index}];
  if (!device)
    device = take(THPDevice_New(c10::Device(static_cast<c10::DeviceType>(record.device_type), record.device_index)));
  return device.get();
}

int64_t known(shape::SymInt number) {
  if (!number.is_number()) GRAMME_BUG("a size that varies, where it must be a number");
  return *number.number();
}

std::vector<int64_t> known(const std::vector<shape::SymInt>& numbers) {
  std::vector<int64_t> result;
  result.reserve(numbers.size());
  for (shape::SymInt number : numbers) result.push_back(known(number));
  return result;
}

int64_t numel(const Record& record) {
  int64_t count = 1;
  for (shape::SymInt size : record.sizes) count *= known(size);
  return count;
}

bool is_floating_point(const Record& record) { return c10::isFloatingType(static_cast<at::ScalarType>(record.dtype)); }
bool is_complex(const Record& record) { return c10::isComplexType(static_cast<at::ScalarType>(record.dtype)); }

}  // namespace gramme::meta
