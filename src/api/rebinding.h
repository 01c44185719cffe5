// For tests: each new segment and its graph are described, and the descriptions bound again, before they are used.
#pragma once
#include <memory>

#include "graph/kept.h"
#include "runtime/capturer.h"

namespace gramme::api {

/// True if captures that end from now on go that way.
extern bool rebinds;
/// The segment with what its description leads to in the frame's call in the place of its own objects. What does not
/// lead there is noted for the test, and stays.
std::unique_ptr<plan::Segment> rebound(std::unique_ptr<plan::Segment> segment, const runtime::FrameView& frame);

/// The same of the graph that the segment, which is not finished, stands for.
std::unique_ptr<graph::Kept> rebound(const graph::Graph& graph, const std::vector<Owned<>>& inputs,
                                     const plan::Segment& segment, const runtime::FrameView& frame);

}  // namespace gramme::api
