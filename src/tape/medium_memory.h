// Memory of tensors between the small and the large ones (memory.h) that training steps make.
//
// In the C library's heap they are among small objects. What a recording keeps (references to tensors, autograd's
// nodes) lies between them, and what they free stays in pieces that serve no larger tensor. And the heap returns what
// is free at its end, which costs a page fault for each page of it in the next step. Here blocks lie in a range of
// addresses of their own, the smallest free piece that suffices is taken, and pages stay for the next step.
#pragma once
#include <cstddef>

namespace gramme::native {

/// From this size on, up to that of large blocks.
inline constexpr size_t kMediumBlock = size_t(256) << 10;

/// Call once, before the first block.
void prepare_medium();
/// A block; null if there is none. `stays`: its pages stay when it is freed.
void* take_medium(size_t bytes, bool stays);
/// Frees a block. False if it is none of these.
bool give_medium(void* block);

/// Only while there is one do pages stay. Made when steps begin that take all their blocks from here.
class MediumUse {
 public:
  MediumUse();
  ~MediumUse();
  MediumUse(const MediumUse&) = delete;
};

struct MediumBlocks {
  size_t used = 0;  // bytes of blocks
  size_t idle = 0;  // bytes between them
};
MediumBlocks medium_blocks();

}  // namespace gramme::native
