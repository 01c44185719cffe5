// The bytes of memory that a tensor can touch. It includes torch headers, so only sources of aten include it.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace gramme::aten {

/// The bytes of storage a view can touch: [begin, end).
struct Extent {
  uintptr_t begin, end;
};

inline Extent extent_of(const at::Tensor& tensor) {
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

inline bool has_plain_storage(const at::Tensor& tensor) {
  return tensor.layout() == c10::kStrided && tensor.unsafeGetTensorImpl()->has_storage() &&
         !tensor.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python);
}

}  // namespace gramme::aten
