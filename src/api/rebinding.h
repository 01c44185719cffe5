// For tests: rebuilds each new segment and its graph from their descriptions before use.
#pragma once
#include <memory>

#include "graph/kept.h"
#include "runtime/capturer.h"

namespace gramme::api {

/// True if captures that end from now on are rebuilt.
bool rebinds();
/// The segment with its objects replaced by those that its description finds in the frame's call. Objects that are not
/// found are noted for the test and stay.
std::unique_ptr<plan::Segment> rebound(std::unique_ptr<plan::Segment> segment, const runtime::FrameView& frame);

/// The same for the graph of the segment, which is not complete yet.
std::unique_ptr<graph::Kept> rebound(const graph::Graph& graph, const std::vector<Owned<>>& inputs,
                                     const plan::Segment& segment, const runtime::FrameView& frame);

}  // namespace gramme::api
