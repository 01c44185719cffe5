// Warnings that the capture knows beforehand: effects at the line that the program is at.
#pragma once
#include "trace/inliner.h"
#include "trace/trace.h"

namespace gramme::protocol {

using trace::Trace;

/// The filters of warnings as the capture left them changed.
struct Filters {
  bool changed = false;
};

/// True if the program wrote to what decides what becomes of a warning. Then nothing of it is known.
bool writes_filters(Trace& trace);

/// Issues it after the graph, once the filters neither raise it nor have a function of the program show it, which is
/// guarded. False: it must be issued for real.
bool warn_at(Trace& trace, const trace::CallSite& site, PyObject* text, PyTypeObject* category);

/// What the replay calls for that; borrowed, it lives as long as the process.
PyObject* warning_issuer();

}  // namespace gramme::protocol
