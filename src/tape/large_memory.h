// Memory of large tensors, in huge pages.
//
// The C library maps blocks of 32 MiB and more anew each time, and unmaps them when they are freed. Each small page of
// them then costs a page fault: for the gradient of an embedding of GPT-2, 38,000 a step.
#pragma once
#include <cstddef>

namespace gramme::native {

/// Blocks from this size on are mapped anew by the C library whatever was freed before (malloc's limit of
/// M_MMAP_THRESHOLD).
inline constexpr size_t kLargeBlock = size_t(32) << 20;

/// Call once, before the first block: a process that forks meanwhile has no half-made state in its child.
void prepare_large();
/// A new block that begins at a huge page. All whole huge pages of it are asked to be huge, so it takes no more memory
/// than one of small pages. Null if there is none.
void* map_large(size_t bytes);
/// Unmaps the block. False if map_large() has not made it.
bool unmap_large(void* block);
struct LargeBlocks {
  size_t given = 0;   // by map_large()
  size_t reused = 0;  // of them, blocks freed before
  size_t kept = 0;    // bytes of freed blocks, whose pages the system may take
};
LargeBlocks large_blocks();

}  // namespace gramme::native
