// Who hears of captures: the recording under way (gramme.record), and PyTorch's structured log while it is written
// (TORCH_TRACE). Both are objects of Python that are called alike; python/gramme/_events.py says with what.
#pragma once
#include <nanobind/nanobind.h>

#include "plan/segment.h"
#include "runtime/capturer.h"

namespace gramme::api {

/// True if the log is written anywhere.
bool has_log();
bool has_listeners();

/// Calls the method of each, in the scope of apart_or_throw.
void tell(const char* method, const nanobind::dict& event);

/// (frame, recompile)
nanobind::tuple as_tuple(const plan::CompileId& id);

/// Why none of the segments there could be used; a capture follows, which will be called so.
void tell_recompile(const runtime::FrameView& frame, const std::vector<runtime::Missed>& missed,
                    const plan::CompileId& id);
/// A segment of another entry is taken in the place of a capture; a recording numbers it.
void tell_shared(const runtime::FrameView& frame, plan::Segment& segment);
/// A resume point was captured as often as it may.
void tell_limit(const runtime::FrameView& frame, int limit, const Mismatch& reason, const plan::CompileId& id);

}  // namespace gramme::api
