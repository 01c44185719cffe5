// Blocks mapped at huge pages, with their sizes, which unmapping needs.
#include "tape/large_memory.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/process.h"

namespace gramme::native {
namespace {

constexpr size_t kHugePage = size_t(2) << 20, kPage = 4096;

constexpr size_t rounded_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

/// Freed blocks kept for the next, in bytes.
constexpr size_t kMostKept = size_t(512) << 20;

struct Block {
  void* begin;
  size_t size;
};

struct Blocks {
  std::mutex mutex;
  std::unordered_map<void*, size_t> sizes;  // mutex: of those in use, by address
  std::vector<Block> kept;                  // mutex: the latest last
  size_t kept_bytes = 0;                    // mutex
  size_t given = 0;                         // mutex: as in LargeBlocks
  size_t reused = 0;                        // mutex: the same
};
Lasting<Blocks> blocks;  // tensors may outlive everything

/// A kept block that is at most an eighth too large. The caller holds the mutex.
std::optional<Block> take_kept(Blocks& all, size_t size) {
  const auto found = std::ranges::find_if(all.kept.rbegin(), all.kept.rend(), [&](const Block& block) {
    return block.size >= size && block.size - size <= size / 8;
  });
  if (found == all.kept.rend()) return std::nullopt;
  const Block block = *found;
  all.kept.erase(std::next(found).base());
  all.kept_bytes -= block.size;
  ++all.reused;
  return block;
}

std::optional<Block> map_new(size_t size) {
  const size_t reserved = size + kHugePage;
  void* const mapped = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return std::nullopt;
  const auto begin = reinterpret_cast<uintptr_t>(mapped), block = rounded_up(begin, kHugePage);
  if (block != begin) munmap(mapped, block - begin);
  if (const uintptr_t end = block + size; end != begin + reserved)
    munmap(reinterpret_cast<void*>(end), begin + reserved - end);
  auto* const made = reinterpret_cast<void*>(block);
  madvise(made, size / kHugePage * kHugePage, MADV_HUGEPAGE);
  return Block{made, size};
}

/// Keeps the block; the system takes its pages if it wants memory. The caller holds the mutex. Returns what is to be
/// unmapped.
std::vector<Block> keep(Blocks& all, Block block) {
  std::vector<Block> dropped;
  if (block.size > kMostKept || madvise(block.begin, block.size, MADV_FREE) != 0) return {block};
  while (all.kept_bytes + block.size > kMostKept) {
    dropped.push_back(all.kept.front());
    all.kept_bytes -= all.kept.front().size;
    all.kept.erase(all.kept.begin());
  }
  all.kept.push_back(block);
  all.kept_bytes += block.size;
  return dropped;
}

}  // namespace

void prepare_large() {
  auto lock = [] { blocks->mutex.lock(); };
  auto unlock = [] { blocks->mutex.unlock(); };
  pthread_atfork(lock, unlock, unlock);
}

void* map_large(size_t bytes) {
  const size_t size = rounded_up(bytes, kPage);
  if (size < bytes || size + kHugePage < size) return nullptr;
  Blocks& all = *blocks;
  std::lock_guard lock(all.mutex);
  std::optional<Block> block = take_kept(all, size);
  if (!block) block = map_new(size);
  if (!block) return nullptr;
  all.sizes.emplace(block->begin, block->size);
  ++all.given;
  return block->begin;
}

bool unmap_large(void* begin) {
  Blocks& all = *blocks;
  std::vector<Block> dropped;
  {
    std::lock_guard lock(all.mutex);
    const auto found = all.sizes.find(begin);
    if (found == all.sizes.end()) return false;
    dropped = keep(all, {begin, found->second});
    all.sizes.erase(found);
  }
  for (const Block& block : dropped) munmap(block.begin, block.size);
  return true;
}

LargeBlocks large_blocks() {
  Blocks& all = *blocks;
  std::lock_guard lock(all.mutex);
  return {all.given, all.reused, all.kept_bytes};
}

}  // namespace gramme::native
