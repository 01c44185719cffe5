// torch.compile's option guard_filter_fn: drops the guards that the program wants dropped.
#pragma once
#include "base/ref.h"
#include "plan/segment.h"

namespace gramme::api {

/// Calls the function with the guards, as PyTorch's front end does, and drops those that it rejects. Guards without
/// which a segment cannot run stay, and a warning names them. An exception of the function propagates.
void filter_guards(PyObject* function, plan::Segment& segment);

}  // namespace gramme::api
