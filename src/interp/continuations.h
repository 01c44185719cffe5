// What instructions do with the value of the Python function that they call. A segment may end in that callee, whose
// frame is then made by carrying out the instruction. A segment that begins in the callee may return into the caller.
#pragma once
#include "interp/interpreter.h"

namespace gramme::interp {

/// True for call instructions, as opposed to those that call implicitly.
bool is_call(opcode::Op op);

/// True if the frame's instruction calls the class, with room for an instance in front of the arguments.
bool calls_class(trace::Trace& trace, const Frame& frame, const value::Class* cls);

/// The operands with which the instruction is carried out again to reach the callee. A call's arguments may be None,
/// since the callee's variables replace them. For a class, the instance exists already and its __init__ is called.
std::vector<Value*> operands_anew(trace::Trace& trace, const Frame& frame, const Frame& callee);

/// What the frame's instruction does with the value of the function that it called.
plan::Gives gives_of(trace::Trace& trace, const Frame& frame, const value::Function* callee);
/// True if an __init__ never rebinds its first variable, the instance.
bool keeps_instance(const bytecode::Code& init);

/// How many operands the instruction replaces by its value; nullopt if it does more than that.
std::optional<size_t> operands_of(const bytecode::Instruction& instruction, const Value* value);
/// Pushes what the instruction leaves on the stack after its operands are popped.
void push_value(trace::Trace& trace, Frame& frame, opcode::Op op, Value* value);

}  // namespace gramme::interp
