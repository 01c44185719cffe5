// A linear layer under autograd: one instruction, and one node of the autograd graph.
//
// PyTorch makes four nodes of it (view, t, addmm, view), and each costs its share of the backward pass, too. The
// matrices multiplied are the same here, so results and gradients keep their bits. Only what nobody sees is one: a
// result that leaves the tape, is written to, or is a view's base out there has PyTorch's own grad_fn. Below autograd
// it is one call of the kernel, with sizes and strides of its own computed at each call.
#pragma once
#include "native/recorder.h"
#include "native/tape.h"

namespace gramme::native {

/// Prepares the recorded call of aten::linear, which made `parts`, for one node, or below autograd for any sizes;
/// leaves it as it is if it did more than multiply flattened inputs by the transposed weight.
void prepare_linear(Instruction& instruction, const std::vector<Observed>& parts, const Recorder& recorder,
                    bool below_autograd);
/// True if it is prepared.
bool is_prepared_linear(const Instruction& instruction);
/// True if it is prepared for below autograd, and its result is no view where PyTorch makes it.
bool makes_no_view(const Instruction& instruction);

}  // namespace gramme::native
