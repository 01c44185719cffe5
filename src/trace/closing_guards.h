// What a segment guards besides what the capture met on its way: known only at its end.
#pragma once
#include <vector>

#include "trace/trace.h"

namespace gramme::trace {

/// Which tensors share memory, what lies in those whose content was read, which objects are one.
void guard_identity(Trace& trace);

/// The facts that the segment needs: `reads` are the sources it fetches in any case.
std::vector<guards::Fact> facts_needed(const Trace& trace, const std::vector<const Source*>& reads);

}  // namespace gramme::trace
