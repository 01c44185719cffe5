// A step that is carried out by calling its Python function.
#pragma once
#include "native/place.h"
#include "native/program.h"

namespace gramme::native {

struct PythonCall : Bound {
  const Step* step;                                 // of the program that the tape holds
  std::vector<std::pair<ValueId, Place>> operands;  // where the values among its arguments are found
  Place result;
  std::string why;  // it is no instruction for the dispatcher
};

/// Holds the GIL, which the run may have released.
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

/// The step, with its values found where `places` (by value) says.
void bind_python(Instruction& instruction, const Step& step, const std::vector<Place>& places, Place result,
                 std::string why);
/// True if it runs programs of its own, whose results are alike at each call.
bool runs_programs(const Step& step);
const PythonCall& python_call(const Instruction& instruction);

}  // namespace gramme::native
