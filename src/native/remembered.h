// What an instruction resulted in at the call before. As long as sizes stay, it is not found out again.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include "native/tape.h"

namespace gramme::native {

struct Geometry {
  c10::DimVector sizes, strides;
  int64_t offset = 0;
};

/// What one instruction remembers, in the frame of its tape; no other thread is in that frame.
struct Remembered {
  bool known = false;
  c10::SmallVector<int64_t, 24> of;  // ranks, sizes and strides of tensors, and numbers
  Geometry made;                     // of a view
  bool flash = false;                // of attention

  void note(const at::Tensor& tensor) {
    of.push_back(tensor.dim());
    of.append(tensor.sizes().begin(), tensor.sizes().end());
    of.append(tensor.strides().begin(), tensor.strides().end());
  }
  /// True if such a tensor is noted at `*at`. Then `*at` is behind it.
  bool has(const at::Tensor& tensor, const int64_t** at) const {
    const size_t rank = tensor.sizes().size();
    const int64_t *size = tensor.sizes().data(), *stride = tensor.strides().data(), *word = *at;
    if (*word++ != static_cast<int64_t>(rank)) return false;
    for (size_t d = 0; d < rank; ++d)
      if (word[d] != size[d] || word[rank + d] != stride[d]) return false;
    *at = word + 2 * rank;
    return true;
  }
};

}  // namespace gramme::native
