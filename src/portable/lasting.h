// Whether a segment may outlive the program's objects that it was captured with.
#pragma once
#include "plan/segment.h"

namespace gramme::portable {

/// True if it is there as long as its module: a constant, code, or what a module or one of its classes has under its
/// own name. Cheap; false in doubt.
bool lasts(PyObject* object);
/// True if all that it holds, but for what the backend made, lasts.
bool holds_only_lasting(const plan::Segment& segment);

}  // namespace gramme::portable
