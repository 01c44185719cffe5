// Decides whether a segment may outlive the program's objects that it was captured with.
#pragma once
#include "plan/segment.h"

namespace gramme::portable {

/// True if the object lives as long as its module: a constant, code, or what a module or one of its classes holds under
/// the object's own name. Cheap; false in doubt.
bool lasts(PyObject* object);
/// True if lasts() holds for all the segment's objects, except what the backend made.
bool holds_only_lasting(const plan::Segment& segment);

}  // namespace gramme::portable
