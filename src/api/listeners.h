// Tells listeners of captures: the running recording (gramme.record), and PyTorch's structured log while it is written
// (TORCH_TRACE). Both are Python objects with the methods of python/gramme/_events.py.
#pragma once
#include <nanobind/nanobind.h>

#include "plan/segment.h"
#include "runtime/capturer.h"

namespace gramme::api {

/// True if the structured log is written.
bool has_log();
bool has_listeners();

/// Calls the method of each listener. Call it inside apart_or_throw().
void tell(const char* method, const nanobind::dict& event);

/// (frame, recompile)
nanobind::tuple as_tuple(const plan::CompileId& id);

/// Tells why no cached segment could be used, and the id of the capture that follows.
void tell_recompile(const runtime::FrameView& frame, const std::vector<runtime::Missed>& missed,
                    const plan::CompileId& id);
/// Tells that a segment of another entry is used instead of a capture; a recording numbers it.
void tell_shared(const runtime::FrameView& frame, plan::Segment& segment);
/// Tells that a resume point has reached its limit of captures.
void tell_limit(const runtime::FrameView& frame, int limit, const Mismatch& reason, const plan::CompileId& id);

}  // namespace gramme::api
