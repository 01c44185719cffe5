// Attention whose sizes vary: PyTorch's operator chooses a kernel by them. What it was seen to choose is called at once
// as long as they stay.
#pragma once
#include "native/tape.h"

namespace gramme::native {

/// Lets an instruction that is bound to its operator go straight to the kernel. `remembered` counts those of the
/// tape that remember something.
void bind_attention(Instruction& instruction, int32_t& remembered);

}  // namespace gramme::native
