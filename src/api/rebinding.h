// For tests: each new segment is described, and the description bound again, before it is used.
#pragma once
#include <memory>

#include "runtime/capturer.h"

namespace gramme::api {

/// True if captures that end from now on go that way.
extern bool rebinds;
/// The segment with what its description leads to in the frame's call in the place of its own objects. What does not
/// lead there is noted for the test, and stays.
std::unique_ptr<plan::Segment> rebound(std::unique_ptr<plan::Segment> segment, const runtime::FrameView& frame);

}  // namespace gramme::api
