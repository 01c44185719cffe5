// Fuses successive elementwise operators on small tensors into one instruction. Results that are not read afterwards
// stay in scratch memory. A kernel call costs more than such an operator's computation.
//
// Only operations whose bits do not depend on the implementation qualify: single IEEE 754 operations, and whole
// numbers.
#pragma once
#include <vector>

#include "tape/fused.h"

namespace gramme::native {

class Aliases;
class Recorder;

/// Fuses neighbouring instructions where possible. `returned`, by register: whether it is in the output.
std::vector<Instruction> with_fused(std::vector<Instruction> instructions, const Recorder& recorder,
                                    const std::vector<bool>& returned);

}  // namespace gramme::native
