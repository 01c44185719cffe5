// Free pieces of the range by address and by size; neighbours are joined.
#include "tape/medium_memory.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/process.h"

namespace gramme::native {
namespace {

constexpr size_t kRange = size_t(64) << 30;
constexpr size_t kPage = 4096, kAlignment = 64;
/// Idle bytes above which the system may take the pages of what is freed.
constexpr size_t kMostIdle = size_t(512) << 20;
/// The range grows by so much. Each time the C library returns what earlier steps have freed.
constexpr size_t kGrowth = size_t(32) << 20;

struct Block {
  size_t size;
  bool stays;  // its pages, when it is freed
};

struct Pieces {
  std::mutex mutex;
  char* begin = nullptr;                     // atomic: set before blocks exist; null if there is no range
  size_t end = 0;                            // mutex: of what was ever used; blocks are known by their offsets
  size_t open = 0;                           // mutex: up to here memory may be read and written
  size_t used_bytes = 0;                     // mutex
  size_t users = 0;                          // mutex: MediumUse
  std::unordered_map<size_t, Block> used;    // mutex
  std::map<size_t, size_t> idle;             // mutex: sizes of what lies between
  std::set<std::pair<size_t, size_t>> fits;  // mutex: the same by size, then offset

  void add(size_t at, size_t size) {
    idle.emplace(at, size);
    fits.emplace(size, at);
  }
  void remove(size_t at, size_t size) {
    idle.erase(at);
    fits.erase({size, at});
  }
  bool grow(size_t to) {
    if (to <= open) return true;
    const size_t more = (to - open + kGrowth - 1) / kGrowth * kGrowth;
    if (mprotect(begin + open, more, PROT_READ | PROT_WRITE) != 0) return false;
    open += more;
    return true;
  }
  size_t idle_bytes() const { return end - used_bytes; }
  /// Where a block begins that is cut from the smallest piece, or from new memory at the end; `kRange` if there is
  /// none.
  size_t cut(size_t size) {
    if (const auto found = fits.lower_bound({size, 0}); found != fits.end()) {
      const auto [length, at] = *found;
      remove(at, length);
      if (length > size) add(at + size, length - size);
      return at;
    }
    size_t at = end;
    if (!idle.empty())
      if (const auto [last, length] = *std::prev(idle.end()); last + length == end) at = last;
    if (size > kRange - at || !grow(at + size)) return kRange;
    if (at != end) remove(at, end - at);
    end = at + size;
    return at;
  }
  /// Joins the piece with idle neighbours.
  void join(size_t at, size_t size) {
    auto next = idle.lower_bound(at);
    if (next != idle.begin())
      if (const auto [before, length] = *std::prev(next); before + length == at) {
        remove(before, length);
        at = before;
        size += length;
      }
    next = idle.lower_bound(at);
    if (next != idle.end() && next->first == at + size) {
      const size_t length = next->second;
      remove(at + size, length);
      size += length;
    }
    add(at, size);
  }
  /// Tells the system what may become of the whole pages of idle memory.
  void advise(size_t at, size_t size, int advice) const {
    const size_t first = (at + kPage - 1) / kPage * kPage, last = (at + size) / kPage * kPage;
    if (first < last) madvise(begin + first, last - first, advice);
  }
};
Lasting<Pieces> pieces;  // tensors may outlive everything

bool holds(const Pieces& all, const void* address) {
  const auto offset = reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(all.begin);
  return all.begin && offset < kRange;
}

}  // namespace

void prepare_medium() {
  auto lock = [] { pieces->mutex.lock(); };
  auto unlock = [] { pieces->mutex.unlock(); };
  pthread_atfork(lock, unlock, unlock);
  rlimit limit;  // of addresses: the range would leave too few
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY) return;
  void* const reserved = mmap(nullptr, kRange, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved != MAP_FAILED) pieces->begin = static_cast<char*>(reserved);
}

/// Blocks of one size begin at different places in their pages, as the C library's do: processors confuse addresses
/// that differ in whole pages.
void* take_medium(size_t bytes, bool stays) {
  const size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment + kAlignment;
  Pieces& all = *pieces;
  if (!all.begin || size < bytes) return nullptr;
  bool grew = false;
  size_t at = 0;
  {
    std::lock_guard lock(all.mutex);
    const size_t open = all.open;
    at = all.cut(size);
    if (at == kRange) return nullptr;
    all.used.emplace(at, Block{size, stays});
    all.used_bytes += size;
    grew = all.open != open;
  }
  if (grew) malloc_trim(0);
  return all.begin + at;
}

bool give_medium(void* block) {
  Pieces& all = *pieces;
  if (!holds(all, block)) return false;
  const auto at = static_cast<size_t>(static_cast<char*>(block) - all.begin);
  std::lock_guard lock(all.mutex);
  const auto found = all.used.find(at);
  const auto [size, stays] = found->second;
  all.used.erase(found);
  all.used_bytes -= size;
  if (!stays || !all.users)
    all.advise(at, size, MADV_DONTNEED);
  else if (all.idle_bytes() > kMostIdle)
    all.advise(at, size, MADV_FREE);
  all.join(at, size);
  return true;
}

MediumUse::MediumUse() {
  bool much = false;
  {
    std::lock_guard lock(pieces->mutex);
    ++pieces->users;
    much = pieces->idle_bytes() >= kGrowth;
  }
  if (much) malloc_trim(0);  // idle pieces are filled again, beside what the C library has
}

MediumUse::~MediumUse() {
  Pieces& all = *pieces;
  std::lock_guard lock(all.mutex);
  if (--all.users) return;
  for (const auto& [at, size] : all.idle) all.advise(at, size, MADV_DONTNEED);
}

MediumBlocks medium_blocks() {
  std::lock_guard lock(pieces->mutex);
  return {pieces->used_bytes, pieces->idle_bytes()};
}

}  // namespace gramme::native
