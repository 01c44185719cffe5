// Signals while a compiler runs operators on tensors that Python stands behind: fakes, proxies, functional ones.
#pragma once
#include "base/signals.h"

namespace gramme::aten {

/// In the scope, on this thread, no handler of a signal runs while PyTorch's C++ calls Python for a tensor's sake: some
/// of its functions end the process if that raises. It runs behind the operator.
class DispatchHoldsSignals {
 public:
  DispatchHoldsSignals();
  ~DispatchHoldsSignals();
  DispatchHoldsSignals(const DispatchHoldsSignals&) = delete;
};

}  // namespace gramme::aten
