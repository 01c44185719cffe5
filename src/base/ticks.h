// The processor's counter: the cheapest clock.
#pragma once
#include <cstdint>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace gramme {

using Ticks = uint64_t;

/// torch's c10::getApproximateTime() reads the same, and its converter tells what time that was.
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
