// Many tensors that share no memory with each other.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

#include "aten/extent.h"
#include "aten/spec.h"

namespace gramme::aten {
namespace {

/// Where the tensor's data begins; 0 if it has none that others could share.
uintptr_t address_of(PyObject* object) {
  const at::Tensor& tensor = THPVariable_Unpack(object);
  return has_plain_storage(tensor) ? reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) : 0;
}

bool lie_apart(std::vector<Extent>& extents) {
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < extents.size(); ++i)
    if (extents[i].begin < extents[i - 1].end) return false;
  return true;
}

}  // namespace

bool all_apart(PyObject* const* objects, const std::vector<uint32_t>& which, std::vector<uintptr_t>& known) {
  bool unchanged = known.size() == which.size();
  for (size_t i = 0; i < which.size(); ++i) {
    PyObject* object = objects[which[i]];
    if (!object || !is_tensor(object)) return false;
    unchanged = unchanged && address_of(object) == known[i];
  }
  if (unchanged) return true;
  std::vector<Extent> extents;
  std::vector<uintptr_t> addresses;
  for (uint32_t index : which) {
    addresses.push_back(address_of(objects[index]));
    if (!addresses.back()) continue;
    Extent extent = extent_of(THPVariable_Unpack(objects[index]));
    if (extent.begin != extent.end) extents.push_back(extent);
  }
  if (!lie_apart(extents)) return false;
  known = std::move(addresses);
  return true;
}

bool is_stale_view(PyObject* tensor) {
  const at::Tensor& view = THPVariable_Unpack(tensor);
  if (!view.is_view() || !view.is_leaf()) return false;
  const auto* meta = torch::autograd::impl::get_autograd_meta(view);
  return meta && !meta->requires_grad_ && view.requires_grad();
}

}  // namespace gramme::aten
