// What instructions do with the value of the Python function that they call: a segment may end in the callee, whose
// frame is made by carrying the instruction out, and one that begins there may return into the caller.
#pragma once
#include "interp/interpreter.h"

namespace gramme::interp {

/// True if the instruction is a call, and not one that leads to a call.
bool is_call(opcode::Op op);

/// True if the frame's instruction calls the class, with room for an instance in front of the arguments.
bool calls_class(trace::Trace& trace, const Frame& frame, const value::Class* cls);

/// The stack with which the frame's instruction is carried out once more, up to the callee. Where it is a call, the
/// callee's variables are put in place of its arguments, so None will do for those. A class has made its instance: its
/// __init__ is called.
std::vector<Value*> operands_anew(trace::Trace& trace, const Frame& frame, const Frame& callee);

/// What the frame's instruction gives when the function that it called returns.
plan::Gives gives_of(trace::Trace& trace, const Frame& frame, const value::Function* callee);
/// True if the object that an __init__ is called for is its first variable to the end.
bool keeps_instance(const bytecode::Code& init);

/// How many items the instruction takes from the stack for the value that it gives; nothing where it does more with it.
std::optional<size_t> operands_of(const bytecode::Instruction& instruction, const Value* value);
/// What it leaves on the stack, once its operands are gone.
void push_value(trace::Trace& trace, Frame& frame, opcode::Op op, Value* value);

}  // namespace gramme::interp
