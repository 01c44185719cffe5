// Binds the instruction that calls a step's Python function. torch.cond over native programs, and arithmetic on floats,
// run without Python.
#pragma once
#include <string>
#include <vector>

#include "tape/python_call.h"

namespace gramme::native {

/// Binds the instruction to a step; `places` (by value) has its values.
void bind_python(Instruction& instruction, const Step& step, const std::vector<Place>& places, Place result,
                 std::string why);
/// True if the step runs native programs (bodies), whose results have the same form at each call.
bool runs_programs(const Step& step);
/// True for a checkpointed body that has an executor (gramme._higher_order.Block, Program::blocks).
bool is_block(PyObject* object);
/// True if the step is a checkpoint of such a body.
bool runs_block(const Step& step);

}  // namespace gramme::native
