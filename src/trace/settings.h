// Calls that settings of torch._dynamo.config keep out of graphs.
#pragma once
#include "meta/argument.h"
#include "trace/policy.h"

namespace gramme::trace {

/// Ends the segment before such a call.
void heed_settings(const Policy& policy, const meta::Call& call);

}  // namespace gramme::trace
