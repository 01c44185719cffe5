// What runs when a suspended generator dies: GeneratorExit is raised where it stands.
#include "interp/closing.h"

namespace gramme::interp {

using namespace value;
using bytecode::Instruction;
using bytecode::Op;

namespace {

/// Does an except clause for the global `name` let GeneratorExit pass? Only names of classes are looked at.
bool lets_pass(trace::Trace& trace, Frame& frame, PyObject* name) {
  Value* found = trace.global(frame.globals, name);
  if (!found) found = trace.global(frame.builtins, name);
  auto* cls = found ? trace.see_as<Class>(found) : nullptr;
  return cls && !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(PyExc_GeneratorExit), cls->type());
}

bool delegate_runs_code(trace::Trace& trace, Value* inner) {
  static PyObject* const close = intern("close");
  if (auto* generator = as<Generator>(inner))
    return generator->started && generator->frame && closing_runs_code(trace, *generator->frame);
  return trace.type_lookup(protocol::type_of(inner), close) != nullptr;
}

}  // namespace

Value* delegate_of(trace::Trace& trace, Frame& frame) {
  const bool delegates = frame.current && frame.current->op == Op::YIELD_VALUE && (frame.current - 1)->op == Op::SEND;
  return delegates ? trace.see(frame.peek(1)) : nullptr;
}

bool closing_runs_code(trace::Trace& trace, Frame& frame) {
  if (Value* inner = delegate_of(trace, frame); inner && delegate_runs_code(trace, inner)) return true;
  const bytecode::Handler* handler = frame.current ? frame.code->handler(frame.current->at) : nullptr;
  const auto& instructions = frame.code->instructions();
  for (; handler;) {
    auto pc = static_cast<size_t>(frame.code->index_of(handler->target));
    for (;;) {
      const Instruction& instruction = instructions[pc++];
      if (instruction.op == Op::LOAD_GLOBAL && !lets_pass(trace, frame, frame.name(instruction.arg >> 1))) return true;
      if (instruction.op == Op::POP_JUMP_FORWARD_IF_FALSE)
        pc = static_cast<size_t>(frame.code->index_of(instruction.target));
      if (instruction.op == Op::RERAISE) {
        handler = frame.code->handler(instruction.at);
        break;
      }
      bool passive = instruction.op == Op::PUSH_EXC_INFO || instruction.op == Op::LOAD_GLOBAL ||
                     instruction.op == Op::CHECK_EXC_MATCH || instruction.op == Op::POP_JUMP_FORWARD_IF_FALSE ||
                     instruction.op == Op::COPY || instruction.op == Op::POP_EXCEPT || instruction.op == Op::NOP;
      if (!passive) return true;
    }
  }
  return false;
}

}  // namespace gramme::interp
