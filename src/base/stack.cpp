// Reads the bounds of the thread's stack once from pthread, and again only when the stack seems full.
#include "base/stack.h"

#include <pthread.h>

#include <algorithm>
#include <cstdint>

namespace gramme {
namespace {

/// The thread's stack, which grows down from `end`.
struct Stack {
  uintptr_t begin = 0;
  uintptr_t end = 0;

  [[gnu::cold]] void read() {
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
    void* lowest = nullptr;
    size_t size = 0, guard = 0;
    pthread_attr_getstack(&attributes, &lowest, &size);
    pthread_attr_getguardsize(&attributes, &guard);
    pthread_attr_destroy(&attributes);
    begin = reinterpret_cast<uintptr_t>(lowest) + guard;
    end = reinterpret_cast<uintptr_t>(lowest) + size;
  }
  bool contains(uintptr_t address) const { return address >= begin && address < end; }
  /// Bytes that must be left: a share of a small stack.
  size_t wanted(Room room) const {
    constexpr size_t kCapture = 512 << 10, kCall = 64 << 10;
    switch (room) {
      case Room::Capture:
        return std::min(kCapture, (end - begin) / 2);
      case Room::Call:
        return std::min(kCall, (end - begin) / 6);
      case Room::Hook:
        return (end - begin) / 2;
    }
    return 0;
  }
  /// 0 if `at` is on another stack.
  uintptr_t lowest(Room room, uintptr_t at) const { return contains(at) ? begin + wanted(room) : 0; }
};

thread_local constinit Stack stack;

/// Reads the bounds anew: the main thread's limit may have been raised since.
[[gnu::cold]] bool still_lacks(Room room, uintptr_t at) {
  stack.read();
  return at < stack.lowest(room, at);
}

}  // namespace

uintptr_t lowest_with(Room room) {
  if (stack.end == 0) stack.read();
  return stack.lowest(room, reinterpret_cast<uintptr_t>(__builtin_frame_address(0)));
}

bool has_room(Room room) {
  const auto at = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  if (stack.end == 0) [[unlikely]]
    stack.read();
  return at >= stack.lowest(room, at) || !still_lacks(room, at);
}

bool surely_has_room(Room room) {
  const auto at = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  if (stack.end == 0) [[unlikely]]
    stack.read();
  return stack.contains(at) && at >= stack.lowest(room, at);
}

}  // namespace gramme
