// Counts of how calls with varying sizes were inferred, for tests and measurements.
#pragma once
#include <cstdint>

namespace gramme::meta {

struct SymbolicStatistics {
  uint64_t general_hits, rules, fills;  // for calls not in the memo
  double rule_seconds, fill_seconds;    // rules without the call on numbers
};
SymbolicStatistics& symbolic_statistics();

}  // namespace gramme::meta
