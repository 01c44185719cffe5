// What instructions do with the value of the Python function that they call: a segment may end in the callee, whose
// frame is made by carrying the instruction out, and one that begins there may return into the caller.
#pragma once
#include "interp/interpreter.h"

namespace gramme::interp {

/// Is the instruction a call, and not one that leads to a call?
bool is_call(bytecode::Op op);

/// The stack with which the frame's instruction is carried out once more, up to its callee. Where it is a call, the
/// callee's variables are put in place of its arguments, so None will do for those.
std::vector<Value*> operands_anew(trace::Trace& trace, const Frame& frame);

/// Is the value of the function that the frame's instruction called what the instruction itself gives?
bool gives_value(trace::Trace& trace, const Frame& frame, const value::Function* callee);

/// How many items the instruction takes from the stack for such a value; nothing where it does more with it.
std::optional<size_t> operands_of(const bytecode::Instruction& instruction, const Value* value);
/// What it leaves on the stack, once its operands are gone.
void push_value(trace::Trace& trace, Frame& frame, bytecode::Op op, Value* value);

}  // namespace gramme::interp
