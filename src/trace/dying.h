// A segment ends before an instruction that lets go of an object whose death runs code: the segment's effects come at
// the end.
#pragma once
#include "cpython/dying.h"
#include "trace/capture.h"

namespace gramme::trace {

/// True if destroying the real object may run code.
bool runs_code(const Capture& capture, PyObject* object);
/// The program stores something else where the object is, or nothing; null is none.
void refuse_death(const Capture& capture, PyObject* object);

}  // namespace gramme::trace
