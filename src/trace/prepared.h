// Why a capture starts again: objects of the program were made ready for real, as the state of optimizers is.
#pragma once

namespace gramme::trace {

/// The program's objects were brought into the state in which the segment would have left them before it did anything
/// else: the capture starts again, and finds them so.
struct Prepared {};

}  // namespace gramme::trace
