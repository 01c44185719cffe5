// A caching allocator for small tensors; a range of addresses for those of training steps that are not small
// (medium_memory.h); and large tensors in huge pages (large_memory.h).
//
// Blocks have fixed size classes and are carved from one reserved address range. Freed blocks go to a list of the
// freeing thread, and beyond its bound to a shared list. Requests outside a scope, too large, or beyond the bounds go
// to the original allocator.
#pragma once
#include <c10/core/Allocator.h>

#include "tape/large_memory.h"
#include "tape/medium_memory.h"

namespace gramme::native {

/// How much memory of small tensors is kept for the next ones.
enum class Cached : uint8_t {
  Nothing,
  Little,  // at most 64 MiB a process
  Much,    // at most 384 MiB
};
/// Call before the first scope of an executor that keeps so much. The process keeps the most that any executor asked
/// for.
void allow(Cached much);

/// What this thread's tensors on the CPU take from here.
enum class Served : uint8_t {
  Small,    // up to 1 MiB: from the cache
  Medium,   // from 256 KiB, where the cache has none: from a range of their own
  Passing,  // the same, before a backward that takes its memory elsewhere: pages do not stay for the next
  Large,    // from 32 MiB: in huge pages
};

/// Scope in which they do.
class MemoryScope {
 public:
  MemoryScope(Served what, bool wanted) : what_(what), wanted_(wanted) {
    if (wanted) enter();
  }
  ~MemoryScope() {
    if (wanted_) leave();
  }
  MemoryScope(const MemoryScope&) = delete;

 private:
  void enter();
  void leave();
  const Served what_;
  const bool wanted_;
  bool before_ = false;
};

struct MemoryStatistics {
  size_t reused = 0;  // allocations served by a used block
  size_t carved = 0;  // bytes of all blocks made; at most `bound`
  size_t bound = 0;   // see allow()
  MediumBlocks medium;
  LargeBlocks large;
};
MemoryStatistics memory_statistics();

}  // namespace gramme::native
