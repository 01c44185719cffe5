// Holds signals back while a compiler runs operators on tensors implemented in Python: fake, proxy, functional tensors.
#pragma once
#include "base/signals.h"

namespace gramme::aten {

/// In the scope, no signal handler runs on this thread while PyTorch's C++ calls Python for a tensor: some of its
/// functions end the process if that raises. The handler runs after the operator.
class DispatchHoldsSignals {
 public:
  DispatchHoldsSignals();
  ~DispatchHoldsSignals();
  DispatchHoldsSignals(const DispatchHoldsSignals&) = delete;
};

}  // namespace gramme::aten
