// Guards that can be determined only at the end of a capture.
#pragma once
#include <vector>

#include "trace/trace.h"

namespace gramme::trace {

/// Adds guards on shared memory, on numbers read from tensors, and on which objects are the same.
void guard_identity(Trace& trace);

/// The facts that the segment needs; `reads` are the sources it fetches in any case.
std::vector<guards::Fact> facts_needed(const Trace& trace, const std::vector<const Source*>& reads);

}  // namespace gramme::trace
