// Free lists by size class: per thread, then shared; and the c10 allocator in front of the original one, which also
// gives medium and large blocks.
#include "tape/memory.h"

#include <c10/core/CPUAllocator.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <mutex>
#include <utility>
#include <vector>

#include "base/process.h"
#include "tape/large_memory.h"
#include "tape/medium_memory.h"

namespace gramme::native {
namespace {

// ---- size classes: 256 bytes apart up to 4 KiB, then powers of two

constexpr size_t kStep = 256, kFine = 16, kLargest = size_t(1) << 20;
constexpr size_t kClasses = kFine + 8;            // 8 KiB, 16 KiB … 1 MiB
constexpr size_t kClassBytes = size_t(16) << 20;  // address range of one class
constexpr size_t kThreadClassBytes = kLargest;    // bytes that one thread keeps per class
constexpr size_t kLittle = size_t(64) << 20, kMuch = kClasses * kClassBytes;

constexpr size_t class_of(size_t bytes) {
  if (bytes <= kStep * kFine) return (bytes + kStep - 1) / kStep - 1;
  return kFine + static_cast<size_t>(std::bit_width(bytes - 1)) - 13;
}
constexpr size_t block_size(size_t index) {
  return index < kFine ? (index + 1) * kStep : size_t(8192) << (index - kFine);
}
static_assert(class_of(1) == 0 && class_of(4096) == 15 && class_of(4097) == 16 && class_of(8192) == 16);
static_assert(class_of(kLargest) == kClasses - 1 && block_size(kClasses - 1) == kLargest);

struct Block {
  Block* next;
};

struct List {
  Block* first = nullptr;
  size_t count = 0;
  void push(Block* block) {
    block->next = first;
    first = block;
    ++count;
  }
  Block* pop() {
    Block* block = first;
    if (block) first = block->next, --count;
    return block;
  }
};

/// The shared address range and free lists.
class Range {
 public:
  /// Call once, before the first block is taken.
  void reserve() {
    void* reserved = mmap(nullptr, kMuch, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved != MAP_FAILED) begin_ = static_cast<char*>(reserved);
  }
  bool holds(const void* address) const {
    auto* at = static_cast<const char*>(address);
    return begin_ && at >= begin_ && at < begin_ + kMuch;
  }
  size_t class_of(const void* address) const {
    return static_cast<size_t>(static_cast<const char*>(address) - begin_) / kClassBytes;
  }
  /// A freed block or a new one; null beyond the bound.
  Block* take(size_t index, bool* used) {
    std::lock_guard lock(mutex_);
    Block* block = free_[index].pop();
    *used = block != nullptr;
    const size_t size = native::block_size(index);
    if (block || !begin_ || carved_[index] + size > kClassBytes || sum_ + size > bound_) return block;
    block = reinterpret_cast<Block*>(begin_ + index * kClassBytes + carved_[index]);
    carved_[index] += size;
    sum_ += size;
    return block;
  }
  void give(size_t index, Block* block) {
    std::lock_guard lock(mutex_);
    free_[index].push(block);
  }
  void raise_bound(size_t bytes) {
    std::lock_guard lock(mutex_);
    bound_ = std::max(bound_, bytes);
  }
  /// Bytes of all blocks made, and the most there may be.
  std::pair<size_t, size_t> carved() {
    std::lock_guard lock(mutex_);
    return {sum_, bound_};
  }
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  char* begin_ = nullptr;
  std::mutex mutex_;
  std::array<List, kClasses> free_;
  std::array<size_t, kClasses> carved_{};
  size_t sum_ = 0, bound_ = 0;
};

class Cache;

struct State {
  std::once_flag once;                  // atomic: that the next two are made
  Range range;                          // mutex: its own
  std::atomic<Cache*> cache = nullptr;  // atomic: null until it is installed
  std::atomic<size_t> reused = 0;       // atomic: blocks given again
};
Lasting<State> state;  // tensors may outlive everything

struct Thread {
  std::array<bool, 4> served{};  // by Served
  bool ended = false;            // Kept is gone
};
thread_local constinit Thread of_thread;

/// One thread's free blocks, which become shared when the thread ends.
struct Kept {
  ~Kept() {
    for (size_t i = 0; i < kClasses; ++i)
      while (Block* block = lists[i].pop()) state->range.give(i, block);
    of_thread.ended = true;
  }
  std::array<List, kClasses> lists;
};
thread_local Kept kept;

bool& serves(Served what) { return of_thread.served[static_cast<size_t>(what)]; }

void release(void* address) {
  const size_t index = state->range.class_of(address);
  auto* block = static_cast<Block*>(address);
  if (!of_thread.ended && (kept.lists[index].count + 1) * block_size(index) <= kThreadClassBytes)
    kept.lists[index].push(block);
  else
    state->range.give(index, block);
}

// ---- the allocator

class Cache final : public c10::Allocator {
 public:
  explicit Cache(c10::Allocator* below) : below_(below) {}

  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    const bool small = serves(Served::Small), large = serves(Served::Large);
    const bool stays = serves(Served::Medium), medium = stays || serves(Served::Passing);
    if ((!small && !medium && !large) || c10::memoryProfilingEnabled()) return below_->allocate(bytes);
    if (small && bytes > 0 && bytes <= kLargest)
      if (Block* const block = take(bytes)) return {block, block, &release, cpu};
    if (medium && bytes >= kMediumBlock && bytes < kLargeBlock)
      if (void* const block = take_medium(bytes, stays))
        return {block, block, [](void* taken) { give_medium(taken); }, cpu};
    if (large && bytes >= kLargeBlock)
      if (void* const block = map_large(bytes)) return {block, block, [](void* mapped) { unmap_large(mapped); }, cpu};
    return below_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release_any; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }

 private:
  static Block* take(size_t bytes) {
    const size_t index = class_of(bytes);
    Block* block = kept.lists[index].pop();
    bool used = block != nullptr;
    if (!block) block = state->range.take(index, &used);
    if (used) state->reused.fetch_add(1, std::memory_order_relaxed);
    return block;
  }
  static void release_any(void* address);

  c10::Allocator* below_;
};

void Cache::release_any(void* address) {
  if (state->range.holds(address)) return release(address);
  if (give_medium(address) || unmap_large(address)) return;
  state->cache.load(std::memory_order_acquire)->below_->raw_deleter()(address);
}

/// Puts the allocator in front of the original one, for good; blocks of both are freed through it.
void install() {
  state->range.reserve();
  prepare_medium();
  prepare_large();
  auto unlock = [] { state->range.unlock(); };
  pthread_atfork([] { state->range.lock(); }, unlock, unlock);  // no thread holds the mutex in the child
  auto* const cache = new Cache(c10::GetCPUAllocator());
  state->cache.store(cache, std::memory_order_release);  // before blocks of it exist
  constexpr uint8_t kHighest = 255;
  c10::SetCPUAllocator(cache, kHighest);
}

}  // namespace

void allow(Cached much) {
  if (much != Cached::Nothing) state->range.raise_bound(much == Cached::Much ? kMuch : kLittle);
}

void MemoryScope::enter() {
  if (!state->cache.load(std::memory_order_acquire)) std::call_once(state->once, install);
  before_ = std::exchange(serves(what_), true);
}

void MemoryScope::leave() { serves(what_) = before_; }

MemoryStatistics memory_statistics() {
  const auto [carved, bound] = state->range.carved();
  return {state->reused.load(), carved, bound, medium_blocks(), large_blocks()};
}

}  // namespace gramme::native
