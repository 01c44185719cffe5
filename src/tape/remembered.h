// An instruction's decisions at the previous call, reused as long as sizes stay.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include "tape/tape.h"

namespace gramme::native {

struct Geometry {
  c10::DimVector sizes, strides;
  int64_t offset = 0;
};

/// The memory of one instruction, in its tape's frame, which only one thread uses.
struct Remembered {
  bool known = false;
  c10::SmallVector<int64_t, 24> of;  // ranks, sizes and strides of tensors, and numbers
  Geometry made;                     // view: its geometry
  bool flash = false;                // attention: flash was chosen

  void note(const at::Tensor& tensor) {
    of.push_back(tensor.dim());
    of.append(tensor.sizes().begin(), tensor.sizes().end());
    of.append(tensor.strides().begin(), tensor.strides().end());
  }
  /// True if `*at` holds the note of an equal tensor; advances `*at` past it.
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
