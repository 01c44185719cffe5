// What torch._dynamo.config keeps out of graphs.
#pragma once
#include "meta/argument.h"
#include "trace/policy.h"

namespace gramme::trace {

/// Ends the segment before a call that settings keep out of graphs.
void heed_settings(const Policy& policy, const meta::Call& call);

}  // namespace gramme::trace
