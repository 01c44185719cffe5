// The exception by which a capture starts again after real objects were initialised, such as an optimizer's state.
#pragma once

namespace gramme::trace {

/// Thrown after the first thing that the segment would do to the objects was done for real; the next attempt finds them
/// so.
struct Prepared {};

}  // namespace gramme::trace
