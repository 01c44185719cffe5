// A caching allocator for small tensors, used on request.
//
// Blocks have fixed size classes and are carved from one reserved address range. Freed blocks go to a list of the
// freeing thread, and beyond its bound to a shared list. Requests outside a scope, too large, or beyond the bounds go
// to the original allocator.
#pragma once
#include <c10/core/Allocator.h>

namespace gramme::native {

/// Scope in which this thread's tensors of up to 1 MiB take memory from the cache.
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
  size_t reused = 0;  // allocations served by a used block
  size_t carved = 0;  // bytes of all blocks made; at most `bound`
  size_t bound = 0;
};
MemoryStatistics memory_statistics();

}  // namespace gramme::native
