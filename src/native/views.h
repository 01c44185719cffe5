// Views of known sizes: made at once, without the dispatcher.
#pragma once
#include "native/aliases.h"
#include "native/recorder.h"
#include "native/tape.h"

namespace gramme::native {

struct View final : Bound {
  Register source, target;
  std::vector<int64_t> sizes, strides;
  int64_t offset;  // from the source's
};

const View& view_of(const Instruction& instruction);

/// What an operator instruction may become if its results are views: one View per result, else nothing. A view made
/// past the dispatcher does not know its base, nor do they share a version counter: nobody may look at that.
std::vector<Instruction> as_views(const Instruction& instruction, const Recorder& recorder, const Aliases& aliases);
/// Views of views become views of what is no view; those nobody reads are dropped. `wanted`: the output's registers.
void collapse_views(std::vector<Instruction>& instructions, const std::vector<Register>& wanted);

}  // namespace gramme::native
