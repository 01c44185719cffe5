// Calls a step's Python function with objects built from places.
#include "tape/python_call.h"

#include <algorithm>

#include "tape/stepper.h"

namespace gramme::native {

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

}  // namespace gramme::native
