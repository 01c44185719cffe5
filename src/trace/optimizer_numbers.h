// Whether a capture met varying numbers of an optimizer's param_groups or state.
#pragma once

namespace gramme::trace {

/// State of the capture; `seen` is set at the first such number.
struct OptimizerNumbers {
  bool seen = false;
};

}  // namespace gramme::trace
