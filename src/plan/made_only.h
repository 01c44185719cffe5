// Separates making new objects from changing existing ones in a replay, for captures that are not run (gramme.export).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "plan/replay.h"

namespace gramme::plan {

/// A replay in two parts.
struct MadeOnly {
  Replay makes;                   // makes the objects that the call returns or would store
  std::vector<ReplayOp> changes;  // changes of existing objects, and calls with effects; in the program's order
  std::string refusal;            // why the parts cannot be separated; empty if they can
};

/// `reads` is the number of registers for existing objects. Operands of changes stay in the replay's list.
MadeOnly split(const Replay& replay, int reads);

}  // namespace gramme::plan
