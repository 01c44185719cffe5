// The instruction that computes numbers.
#pragma once
#include <utility>
#include <vector>

#include "tape/place.h"
#include "tape/program.h"

namespace gramme::native {

/// A tape instruction that computes numbers: a tensor's size, or what depends on sizes.
struct Computation final : Bound {
  Register of = kNone;
  int64_t dimension = 0;
  NumberId size = -1;
  std::vector<shape::Instruction> code;
  // For a division: the step to run in Python if the code has no value.
  const Step* step = nullptr;
  std::vector<std::pair<ValueId, Place>> operands;
};

inline const Computation& computation_of(const Instruction& instruction) {
  return static_cast<const Computation&>(*instruction.bound);
}

}  // namespace gramme::native
