// Walks the handlers around a generator's yield, as raising GeneratorExit there would.
#include "interp/closing.h"

#include "bytecode/idioms.h"

namespace gramme::interp {

using namespace value;

namespace {

/// True if an except clause for the global `name` certainly does not catch GeneratorExit. The name must hold a class.
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
  return frame.current && bytecode::delegation_of(*frame.code, *frame.current) ? trace.see(frame.peek(1)) : nullptr;
}

bool closing_runs_code(trace::Trace& trace, Frame& frame) {
  if (Value* inner = delegate_of(trace, frame); inner && delegate_runs_code(trace, inner)) return true;
  auto passes = [&](int name) { return lets_pass(trace, frame, frame.name(name)); };
  return frame.current && !bytecode::passes_through(*frame.code, frame.current->at, passes);
}

}  // namespace gramme::interp
