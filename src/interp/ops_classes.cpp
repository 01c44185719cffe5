// Bodies of classes: their namespace, and the class that is made of it.
#include "interp/ops.h"

namespace gramme::interp {

using namespace value;

namespace {

/// Of a class body that runs symbolically: it keeps its names where other frames keep what locals() gave.
Dict* namespace_of(Frame& frame) {
  bool body = frame.locals && !(frame.object()->co_flags & CO_OPTIMIZED);
  if (!body) cannot(Reason::OpcodeUnsupported, "a name of a module or class that is being executed");
  return frame.locals;
}

Value* find_name(Interpreter& interp, Frame& frame, PyObject* name) {
  Value* found = interp.trace.dict_get(namespace_of(frame), interp.trace.constant(name));
  if (!found) found = interp.trace.global(frame.globals, name);
  return found ? found : interp.trace.global(frame.builtins, name);
}

[[noreturn]] void undefined(Interpreter& interp, PyObject* name) {
  protocol::raise(interp.trace, PyExc_NameError, std::string("name '") + PyUnicode_AsUTF8(name) + "' is not defined");
}

}  // namespace

Step load_name(Interpreter& interp, Frame& frame, int index) {
  Value* found = find_name(interp, frame, frame.name(index));
  if (!found) undefined(interp, frame.name(index));
  frame.push(found);
  return Step::Next;
}
Step store_name(Interpreter& interp, Frame& frame, int index) {
  interp.trace.dict_set(namespace_of(frame), interp.trace.constant(frame.name(index)), frame.pop());
  return Step::Next;
}
Step delete_name(Interpreter& interp, Frame& frame, int index) {
  if (!interp.trace.dict_erase(namespace_of(frame), interp.trace.constant(frame.name(index))))
    undefined(interp, frame.name(index));
  return Step::Next;
}
Step load_classderef(Interpreter& interp, Frame& frame, int slot) {
  if (Value* found = interp.trace.dict_get(namespace_of(frame), interp.trace.constant(frame.variable(slot)))) {
    frame.push(found);
    return Step::Next;
  }
  return load_deref(interp, frame, slot);
}

Step setup_annotations(Interpreter& interp, Frame& frame, int) {
  static PyObject* const kAnnotations = intern("__annotations__");
  Value* name = interp.trace.constant(kAnnotations);
  if (!interp.trace.dict_get(namespace_of(frame), name))
    interp.trace.dict_set(namespace_of(frame), name, interp.trace.dict());
  return Step::Next;
}

/// __build_class__(body, name, *bases): without a metaclass or keywords.
Value* build_class(trace::Trace& trace, const trace::Args& args) {
  static PyObject* const kCell = intern("__classcell__");
  auto* body = args.positional >= 2 ? trace.see_as<Function>(args[0]) : nullptr;
  if (!body || args.keywords) cannot(Reason::CallUnknown, "a class made with keywords");
  Dict* names = trace.dict();
  Value* returned = trace.see(static_cast<Interpreter*>(trace.inliner)->run_body(body, names));
  trace.dict_erase(names, trace.constant(kCell));
  std::vector<Value*> bases(args.values + 2, args.values + args.positional);
  Value* made = protocol::make_class(trace, args[1], bases, names);
  if (auto* cell = as<Cell>(returned)) trace.store_cell(cell, made);
  return made;
}

}  // namespace gramme::interp
