// A linear layer under autograd: one instruction, and one node of the autograd graph.
//
// PyTorch makes four nodes of it (view, t, addmm, view), and each costs its share of the backward pass, too. The
// matrices multiplied are the same here, so results and gradients keep their bits. Only what nobody sees is one: a
// result that leaves the tape, is written to, or is a view's base out there has PyTorch's own grad_fn.
#pragma once
#include "native/recorder.h"
#include "native/tape.h"

namespace gramme::native {

/// Prepares the recorded call of aten::linear, which made `parts`, for one node; leaves it as it is if it did more
/// than multiply flattened inputs by the transposed weight.
void prepare_linear(Instruction& instruction, const std::vector<Observed>& parts, const Recorder& recorder);
/// Is it prepared?
bool is_prepared_linear(const Instruction& instruction);

}  // namespace gramme::native
