// How calls with sizes that vary were answered, for tests and measurements.
#pragma once
#include <cstdint>

namespace gramme::meta {

struct SymbolicStatistics {
  uint64_t general_hits, rules, fills;  // where the call itself was not known
  double rule_seconds, fill_seconds;    // of a rule without what it asks of the call on numbers
};
SymbolicStatistics& symbolic_statistics();

}  // namespace gramme::meta
