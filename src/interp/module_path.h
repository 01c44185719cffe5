// The path of the module whose code is captured, as in "self.layers.0", even if a loop took the module from an
// iterator.
#pragma once
#include <string>

#include "interp/capture.h"

namespace gramme::interp {

/// The path of the module at this address from a variable of the frames that the capture starts in, the outermost
/// first, spelled as a source: L['self']._modules['layers']._modules['1']. Empty if none of them has it. Runs no code
/// of the program.
std::string path_from_frames(const Start& start, uintptr_t module);

}  // namespace gramme::interp
