// Memory of small tensors kept for the next one, on request.
//
// Blocks of fixed size classes, carved from one reserved range of addresses; freed ones go to a list of the thread that
// frees them, those beyond its bound to a list for all. Whatever is not asked for inside a scope, too large, or beyond
// the bounds is the business of the allocator that was there before.
#pragma once
#include <c10/core/Allocator.h>

namespace gramme::native {

/// Tensors made by this thread while it lives, up to 1 MiB each, take their memory from the cache.
class CachedMemory {
 public:
  explicit CachedMemory(bool wanted) : wanted_(wanted) {
    if (wanted) enter();
  }
  ~CachedMemory() {
    if (wanted_) leave();
  }
  CachedMemory(const CachedMemory&) = delete;

 private:
  void enter();
  void leave();
  const bool wanted_;
  bool before_ = false;
};

struct MemoryStatistics {
  size_t reused = 0;  // allocations served by a block that was used before
  size_t carved = 0;  // bytes of blocks ever made; at most bound
  size_t bound = 0;
};
MemoryStatistics memory_statistics();

}  // namespace gramme::native
