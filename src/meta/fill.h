// Runs a call on fakes and describes what it did. Only meta's own sources include this.
#pragma once
#include "meta/infer.h"

namespace gramme::meta {

struct Filled {
  Outcome outcome;
  bool lasting = true;  // false: the error may not come again (memory, recursion, a warning turned into an error)
};

/// Throws PythonError for what interrupts the program.
Filled fill(const Call& call, const std::vector<VmapLevel>& levels, shape::Assumptions* assumptions);

}  // namespace gramme::meta
