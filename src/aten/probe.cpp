// Compares sizes of torch's Python objects with the headers', then reads a tensor made inside libtorch through the
// headers.
#include "aten/probe.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>

#include <algorithm>

namespace gramme::aten {
namespace {

bool differ(const std::vector<Layout>& all) {
  return std::any_of(all.begin(), all.end(), [](const Layout& layout) { return layout.built != layout.found; });
}

/// Adds the fields of a tensor made inside libtorch, as the headers read them. No mode of the thread sees it being
/// made.
void add_tensor(std::vector<Layout>& all) {
  const at::Tensor made = at::detail::empty_strided_cpu({2, 3}, {7, 2}, at::kShort);
  all.push_back({"a tensor's rank", made.dim(), 2});
  if (differ(all)) return;
  all.push_back({"a tensor's size", made.size(1), 3});
  all.push_back({"a tensor's stride", made.stride(0), 7});
  all.push_back({"a tensor's number of elements", made.numel(), 6});
  all.push_back({"a tensor's offset", made.storage_offset(), 0});
  all.push_back({"a tensor's dtype", static_cast<int64_t>(made.scalar_type()), static_cast<int64_t>(at::kShort)});
  all.push_back({"a tensor's device", static_cast<int64_t>(made.device().type()), 0});
  all.push_back({"a tensor's key", made.key_set().has(c10::DispatchKey::CPU), 1});
  if (differ(all)) return;
  all.push_back({"the size of a tensor's memory", static_cast<int64_t>(made.storage().nbytes()), 24});
}

}  // namespace

std::vector<Layout> layouts() {
  std::vector<Layout> all{tensor_object_layout()};
  auto add = [&](const char* of, size_t built, PyTypeObject* type) {
    all.push_back({of, static_cast<int64_t>(built), type->tp_basicsize});
  };
  add("the size of a dtype", sizeof(THPDtype), &THPDtypeType);
  add("the size of a device", sizeof(THPDevice), &THPDeviceType);
  if (!differ(all)) add_tensor(all);
  return all;
}

}  // namespace gramme::aten
