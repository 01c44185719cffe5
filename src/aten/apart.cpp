// Checks that no two of many tensors share memory.
#include <ATen/ATen.h>

#include <algorithm>

#include "aten/extent.h"
#include "aten/python.h"
#include "aten/spec.h"

namespace gramme::aten {
namespace {

/// Where the tensor's data begins; 0 if it has none that others could share.
uintptr_t address_of(PyObject* object) {
  const at::Tensor& tensor = tensor_of(object);
  return has_plain_storage(tensor) ? reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) : 0;
}

/// The bytes that the tensor can touch; empty if it has no data that others could share.
Extent shared_extent_of(PyObject* object) { return address_of(object) ? extent_of(tensor_of(object)) : Extent{0, 0}; }

bool lie_apart(std::vector<Extent>& extents) {
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < extents.size(); ++i)
    if (extents[i].begin < extents[i - 1].end) return false;
  return true;
}

}  // namespace

bool all_apart(PyObject* const* objects, const std::vector<uint32_t>& which, std::vector<uintptr_t>& known,
               size_t steady) {
  steady = std::min(steady, which.size());
  bool unchanged = known.size() == 2 * which.size() - steady;
  for (size_t i = 0; i < which.size(); ++i) {
    PyObject* object = objects[which[i]];
    if (!object || !is_tensor(object)) return false;
    if (!unchanged) continue;
    if (i < steady) {
      unchanged = address_of(object) == known[i];
    } else {
      const Extent extent = shared_extent_of(object);
      const uintptr_t* last = known.data() + 2 * i - steady;
      unchanged = extent.begin == last[0] && extent.end == last[1];
    }
  }
  if (unchanged) return true;
  std::vector<Extent> extents;
  std::vector<uintptr_t> places;
  for (size_t i = 0; i < which.size(); ++i) {
    PyObject* object = objects[which[i]];
    const Extent extent = shared_extent_of(object);
    if (extent.begin != extent.end) extents.push_back(extent);
    if (i < steady)
      places.push_back(address_of(object));
    else
      places.insert(places.end(), {extent.begin, extent.end});
  }
  if (!lie_apart(extents)) return false;
  known = std::move(places);
  return true;
}

bool is_stale_view(PyObject* tensor) {
  const at::Tensor& view = tensor_of(tensor);
  if (!view.is_view() || !view.is_leaf()) return false;
  const auto* meta = torch::autograd::impl::get_autograd_meta(view);
  return meta && !meta->requires_grad_ && view.requires_grad();
}

bool reaches_past_storage(PyObject* object) {
  const at::Tensor& tensor = tensor_of(object);
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (!has_plain_storage(tensor) || impl.has_symbolic_sizes_strides()) return false;
  if (tensor.is_quantized()) return false;  // several elements may share a byte
  const auto& storage = impl.unsafe_storage();
  const size_t needed =
      at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), impl.itemsize(), tensor.storage_offset());
  return tensor.numel() != 0 && !storage.sym_nbytes().is_symbolic() && needed > storage.nbytes();
}

}  // namespace gramme::aten
