// Numbers that an optimizer keeps in its groups and in the state of parameters.
#pragma once

namespace gramme::trace {

/// Kept with the capture: has it come to one that varies?
struct OptimizerNumbers {
  bool seen = false;
};

}  // namespace gramme::trace
