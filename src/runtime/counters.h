// Event counts of compiled functions: for each family, and for each thread while a meter is open.
#pragma once
#include <atomic>
#include <cstdint>

#include "base/process.h"

namespace gramme::runtime {

struct Counters {
  uint64_t calls = 0;      // calls of the entry and of callees captured on their own
  uint64_t frameless = 0;  // hits that made no frame
  uint64_t chained = 0;    // ran in a frame without a new capture
  uint64_t plain = 0;      // run by CPython from the start
  uint64_t captures = 0;
  uint64_t shared = 0;     // segments of other entries, taken in the place of captures
  uint64_t segments = 0;   // run inside frames
  uint64_t steps = 0;      // instructions carried out for real
  uint64_t handovers = 0;  // frames given to CPython in their middle
  uint64_t graph_errors = 0;
  uint64_t graphs = 0;     // run to their end; counted for meters only, as operators is
  uint64_t operators = 0;  // operators that eager execution would have dispatched instead
};

struct Counted {
  uint64_t operators = 0;  // GIL, a word: those that segments have run in graphs; arithmetic on numbers does not count
  /// atomic: meters and recordings open in the process. While there is one, threads count too, except `calls` and
  /// `frameless`: those would slow a hit.
  std::atomic<int> watchers{0};
};
inline Lasting<Counted> counted;
inline bool is_watched() { return counted->watchers.load(std::memory_order_relaxed) > 0; }

/// This thread's counts over all families. A meter reports the difference between two moments.
Counters& thread_counters();

}  // namespace gramme::runtime
