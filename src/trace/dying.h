// A segment ends before an instruction that drops an object whose destruction runs code: that code would run before the
// segment's effects, which come at its end.
#pragma once
#include "cpython/dying.h"
#include "trace/values.h"

namespace gramme::trace {

/// True if destroying the real object may run code.
bool runs_code(const Values& values, PyObject* object);
/// Ends the segment if destroying the object, which the program overwrites or deletes, may run code; null is allowed.
void refuse_death(const Values& values, PyObject* object);

}  // namespace gramme::trace
