// A linear layer under autograd: one instruction, and one node of the autograd graph.
//
// PyTorch makes four nodes for it (view, t, addmm, view), each with a cost in the backward. Here the same matrices are
// multiplied, so results and gradients keep their bits. Only unobservable results are treated so: one that leaves the
// tape, is written, or is the base of an outside view gets PyTorch's own grad_fn. Below autograd it is one kernel call,
// with sizes and strides computed at each call.
#pragma once
#include <atomic>
#include <memory>
#include <vector>

#include "record/recorder.h"
#include "tape/tape.h"

namespace gramme::native {

/// Prepares a recorded call of aten::linear, which called `parts`: for one node, or below autograd for all sizes.
/// Leaves it unchanged if it did more than multiply flattened inputs by the transposed weight.
void prepare_linear(Instruction& instruction, const std::vector<Observed>& parts, const Recorder& recorder,
                    bool below_autograd);
/// True if the instruction was prepared.
bool is_prepared_linear(const Instruction& instruction);
/// The flags (LinearShape::twice) by which the tape's instructions learn that second derivatives were asked for.
std::vector<std::shared_ptr<std::atomic<bool>>> second_derivatives_of(const Tape& tape);
/// True if it was prepared for below autograd, and its result is no view although PyTorch's is.
bool makes_no_view(const Instruction& instruction);

}  // namespace gramme::native
