// Attention with varying sizes. PyTorch's operator chooses a kernel by them; as long as the sizes stay, the kernel seen
// before is called directly.
#pragma once
#include "tape/tape.h"

namespace gramme::native {

/// Lets an instruction bound to the operator call the kernel directly. `remembered` counts the tape's instructions that
/// remember something.
void bind_attention(Instruction& instruction, int32_t& remembered);

}  // namespace gramme::native
