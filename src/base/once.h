// Fetches an object once in the life of the process, safely while the GIL changes hands.
//
//   PyObject* const full = once([] { return real("torch", "full"); });
//
// A function-local static whose initialiser runs Python can deadlock: the initialiser releases the GIL while this
// thread holds the static's guard, and a thread with the GIL waits for the guard. tools/check_statics.py refuses it.
#pragma once
#include <atomic>
#include <type_traits>

namespace gramme {

/// The pointer that `make` returned the first time; each call site has its own. No lock is held while `make` runs: if
/// several threads (or a finalizer in the middle) run it at once, all get the first result and the others are leaked. A
/// null result is not remembered.
template <class Make>
inline std::invoke_result_t<Make> once(Make make) {
  using Pointer = std::invoke_result_t<Make>;
  static_assert(std::is_pointer_v<Pointer>);
  static constinit std::atomic<Pointer> known{nullptr};
  Pointer value = known.load(std::memory_order_acquire);
  if (value) [[likely]]
    return value;
  Pointer made = make();
  return made && !known.compare_exchange_strong(value, made, std::memory_order_acq_rel) ? value : made;
}

}  // namespace gramme
