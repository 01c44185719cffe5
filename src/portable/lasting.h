// Whether a segment may outlive the program's objects that it was captured with.
#pragma once
#include "plan/segment.h"

namespace gramme::portable {

/// True if all that it holds, but for what the backend made, is there as long as the modules it was made of: constants,
/// code, what modules and classes have under its own name. Cheap; false in doubt.
bool holds_only_lasting(const plan::Segment& segment);

}  // namespace gramme::portable
