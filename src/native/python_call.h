// A tape instruction that calls a step's Python function.
#pragma once
#include "native/place.h"
#include "native/program.h"

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

/// Binds the instruction to a step; `places` (by value) has its values.
void bind_python(Instruction& instruction, const Step& step, const std::vector<Place>& places, Place result,
                 std::string why);
/// True if the step runs native programs (bodies), whose results have the same form at each call.
bool runs_programs(const Step& step);
/// True for a checkpointed body that has an executor (gramme._higher_order.Block, Program::blocks).
bool is_block(PyObject* object);
/// True if the step is a checkpoint of such a body.
bool runs_block(const Step& step);
const PythonCall& python_call(const Instruction& instruction);

}  // namespace gramme::native
