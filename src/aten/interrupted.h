// Calls of PyTorch's C++ into Python for a tensor: signals are held while a compiler runs operators on fake, proxy and
// functional tensors, and threads that drop tensors end before the interpreter.
#pragma once
#include "base/signals.h"

namespace gramme::aten {

/// Called once in the process, when gramme is imported: everything below works from here on.
void watch_calls_into_python();

/// In the scope, no signal handler runs on this thread while PyTorch's C++ calls Python for a tensor: some of its
/// functions end the process if that raises. The handler runs after the operator.
class DispatchHoldsSignals {
 public:
  DispatchHoldsSignals();
  ~DispatchHoldsSignals();
  DispatchHoldsSignals(const DispatchHoldsSignals&) = delete;
};

/// Called at the interpreter's end, with the GIL: waits until no other thread drops a tensor's object, 2 s at most.
/// From now on such threads keep it.
void let_threads_drop();

}  // namespace gramme::aten
