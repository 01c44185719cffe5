// A tape instruction that calls a step's Python function.
#pragma once
#include "tape/place.h"
#include "tape/program.h"

namespace gramme::native {

struct PythonCall : Bound {
  const Step* step;                                 // owned by the tape's program
  std::vector<std::pair<ValueId, Place>> operands;  // places of the values among its arguments
  Place result;
  std::string why;  // why it is not replaced by operators
};

/// Scope with the GIL, which the run may have released.
class WithGil {
 public:
  explicit WithGil(Run& run) : run_(run), held_(!run.released) {
    if (!held_) PyEval_RestoreThread(run.released);
  }
  ~WithGil() {
    if (!held_) run_.released = PyEval_SaveThread();
  }
  WithGil(const WithGil&) = delete;

 private:
  Run& run_;
  const bool held_;
};

/// Calls the step's function.
void run_python(const Instruction& instruction, Run& run);

inline const PythonCall& python_call(const Instruction& instruction) {
  return static_cast<const PythonCall&>(*instruction.bound);
}

}  // namespace gramme::native
