#include "native/python_call.h"

#include <algorithm>

#include "native/stepper.h"

namespace gramme::native {
namespace {

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

void run_python(const Instruction& instruction, Run& run) {
  const PythonCall& call = python_call(instruction);
  WithGil gil(run);
  Owned<> result = call_step(*call.step, [&](ValueId value) {
    auto found =
        std::find_if(call.operands.begin(), call.operands.end(), [&](auto& known) { return known.first == value; });
    return object_at(found->second, run);
  });
  put_object(result.get(), call.result, run);
}

}  // namespace

void bind_python(Instruction& instruction, const Step& step, const std::vector<Place>& places, Place result,
                 std::string why) {
  auto bound = std::make_unique<PythonCall>();
  bound->step = &step;
  bound->result = std::move(result);
  bound->why = std::move(why);
  each_value(step, [&](ValueId value) { bound->operands.emplace_back(value, places[static_cast<size_t>(value)]); });
  instruction.kind = Instruction::Python;
  instruction.bound = std::move(bound);
  instruction.invoke = run_python;
}

const PythonCall& python_call(const Instruction& instruction) {
  return static_cast<const PythonCall&>(*instruction.bound);
}

}  // namespace gramme::native
