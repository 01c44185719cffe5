// Views of known sizes: made at once, without the dispatcher.
#pragma once
#include "native/aliases.h"
#include "native/recorder.h"
#include "native/tape.h"

namespace gramme::native {

struct View final : Bound {
  Register source, target;
  c10::DimVector sizes, strides;
  int64_t offset;  // from the source's
};

/// A tensor on the memory of `source`, past the dispatcher; `offset` from the source's.
at::Tensor make_view(const at::Tensor& source, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset);

const View& view_of(const Instruction& instruction);

/// An operator whose results are views becomes one View per result where that can be. A view made past the dispatcher
/// does not know its base, nor do they share a version counter: nobody may look at that.
std::vector<Instruction> with_views(std::vector<Instruction> instructions, const Recorder& recorder,
                                    const Aliases& aliases);
/// Views of views become views of what is no view; those nobody reads are dropped. `read`: by register, is it in the
/// output?
void collapse_views(std::vector<Instruction>& instructions, std::vector<bool> read);

}  // namespace gramme::native
