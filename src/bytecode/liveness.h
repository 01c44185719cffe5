// Which slots of localsplus may still be read from a point of the code on.
//
//   if (!liveness(code).live(unit, slot)) ...   // the slot may be left out of a segment's exit
//
// Speaks of instructions only: locals(), sys._getframe() and debuggers read every slot, and a dead slot still keeps its
// object alive in eager Python. Whoever drops a dead local decides that this does not show.
#pragma once
#include <vector>

#include "bytecode/code.h"

namespace gramme::bytecode {

class Liveness {
 public:
  explicit Liveness(const Code& code);
  /// May an instruction that runs from code unit `unit` (the start of an instruction) on read the slot before it is
  /// written?
  bool live(int unit, int slot) const {
    size_t bit = static_cast<size_t>(code_.index_of(unit)) * slots_ + slot;
    return live_[bit];
  }

 private:
  /// One backward pass; true if something changed.
  bool pass();
  bool update(size_t index);

  const Code& code_;
  size_t slots_;
  std::vector<bool> live_;  // instruction major
};

}  // namespace gramme::bytecode
