// torch.compile's option guard_filter_fn: which guards a segment goes without, because the program asks for that.
#pragma once
#include "base/ref.h"
#include "plan/segment.h"

namespace gramme::api {

/// Asks the function, as PyTorch's front end does, and drops what it refuses. Guards that a segment needs to be run at
/// all stay: a warning names those. Raises what the function raises.
void filter_guards(PyObject* function, plan::Segment& segment);

}  // namespace gramme::api
