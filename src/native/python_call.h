// A step that is carried out by calling its Python function.
#pragma once
#include "native/place.h"
#include "native/program.h"

namespace gramme::native {

struct PythonCall final : Bound {
  const Step* step;                                 // of the program that the tape holds
  std::vector<std::pair<ValueId, Place>> operands;  // where the values among its arguments are found
  Place result;
  std::string why;  // it is no instruction for the dispatcher
};

/// The step, with its values found where `places` (by value) says.
void bind_python(Instruction& instruction, const Step& step, const std::vector<Place>& places, Place result,
                 std::string why);
const PythonCall& python_call(const Instruction& instruction);

}  // namespace gramme::native
