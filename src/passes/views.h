// Views made without the dispatcher: with fixed sizes, or with sizes computed from the source's at each call.
#pragma once
#include "passes/aliases.h"
#include "record/recorder.h"
#include "tape/view.h"

namespace gramme::native {

/// Makes a tensor on `source`'s memory without the dispatcher; `offset` is relative to the source's.
at::Tensor make_view(const at::Tensor& source, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset);

/// Makes calls remember a view's geometry. `remembered` counts the tape's instructions that remember something.
void remember_steps(Instruction& instruction, int32_t& remembered);
/// Makes the instruction a view by this step, using PyTorch's operators.
void bind_index(Instruction& instruction, Register source, Register target, ViewStep step);
/// Replaces operators whose results are views by one View per result where possible. A view made without the dispatcher
/// has no base and its own version counter, so these must not be observable.
std::vector<Instruction> with_views(std::vector<Instruction> instructions, const Recorder& recorder,
                                    const Aliases& aliases);
/// Makes views of views views of the original tensor, and drops unread ones. `read`, by register: whether it is in the
/// output.
void collapse_views(std::vector<Instruction>& instructions, std::vector<bool> read);

}  // namespace gramme::native
