// Splits what a segment makes from what it does to existing objects: for a capture that is not run (gramme.export).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "plan/replay.h"

namespace gramme::plan {

/// A replay in two parts.
struct MadeOnly {
  Replay makes;                   // of the objects that the call returns, and of those it would store
  std::vector<ReplayOp> changes;  // to what was there before, and calls that have effects; in the program's order
  std::string refusal;            // what makes the parts inseparable; empty if nothing does
};

/// `reads`: how many registers hold what was there before. Changes keep their operands in the replay's list.
MadeOnly split(const Replay& replay, int reads);

}  // namespace gramme::plan
