// The processor's counter: the cheapest clock.
#pragma once
#include <cstdint>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace gramme {

using Ticks = uint64_t;

/// The same counter as c10::getApproximateTime(), so torch's converter turns it into a time.
inline Ticks ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  uint64_t value;
  asm volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
#else
#error "no clock is known for this processor"
#endif
}

}  // namespace gramme
