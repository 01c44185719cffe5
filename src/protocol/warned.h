// Warnings that a capture can predict: they become effects that are issued for the program's line.
#pragma once
#include "trace/inliner.h"
#include "trace/trace.h"

namespace gramme::protocol {

using trace::Trace;

/// State of the capture: changes of the warning filters.
struct Filters {
  bool changed = false;
};

/// True if the program changed state on which the handling of warnings depends, so that it cannot be predicted.
bool writes_filters(Trace& trace);

/// True if other warnings may be shown now than at the segment's start, or in another way. False under catch_warnings()
/// as long as the copied filters are equal, and behind it.
bool shows_others(Trace& trace);

/// Issues the warning in replay, guarded by the filters neither raising it nor showing it by the program's code. False:
/// it must be issued for real.
bool warn_at(Trace& trace, const trace::CallSite& site, PyObject* text, PyTypeObject* category);

/// The function that replay calls for that; borrowed, it lives as long as the process.
PyObject* warning_issuer();

}  // namespace gramme::protocol
