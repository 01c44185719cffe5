// Class bodies: their namespace, and making the class from it.
#include "base/text.h"
#include "interp/ops.h"

namespace gramme::interp {

using namespace value;

namespace {

/// The namespace of a class body, kept in the field where other frames keep the dict of locals().
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
  protocol::raise(interp.trace, PyExc_NameError, std::string("name '") + utf8_of(name) + "' is not defined");
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

Step load_locals(Interpreter&, Frame& frame, int) {
  frame.push(namespace_of(frame));
  return Step::Next;
}

namespace {
/// Replaces the namespace on top of the stack by its entry of that name; false if there is none.
bool loads_from_dict(Interpreter& interp, Frame& frame, PyObject* name) {
  auto* names = interp.trace.see_as<Dict>(frame.pop());
  if (!names) cannot(Reason::OpcodeUnsupported, "a namespace that is not a dict");
  Value* found = interp.trace.dict_get(names, interp.trace.constant(name));
  if (found) frame.push(found);
  return found;
}
}  // namespace

Step load_from_dict_or_deref(Interpreter& interp, Frame& frame, int slot) {
  return loads_from_dict(interp, frame, frame.variable(slot)) ? Step::Next : load_deref(interp, frame, slot);
}
Step load_from_dict_or_globals(Interpreter& interp, Frame& frame, int index) {
  return loads_from_dict(interp, frame, frame.name(index)) ? Step::Next : load_global(interp, frame, index << 1);
}

Step setup_annotations(Interpreter& interp, Frame& frame, int) {
  static PyObject* const kAnnotations = intern("__annotations__");
  Value* name = interp.trace.constant(kAnnotations);
  if (!interp.trace.dict_get(namespace_of(frame), name))
    interp.trace.dict_set(namespace_of(frame), name, interp.trace.dict());
  return Step::Next;
}

namespace {

/// The most derived of the given metaclass and those of the bases.
Class* metaclass_of(trace::Trace& trace, Value* asked, const std::vector<Value*>& bases) {
  auto* meta = asked ? trace.see_as<Class>(asked) : as<Class>(trace.pinned(reinterpret_cast<PyObject*>(&PyType_Type)));
  if (!meta || !PyType_IsSubtype(meta->type(), &PyType_Type))
    cannot(Reason::CallUnknown, "a class made by no metaclass");
  for (Value* given : bases) {
    auto* base = trace.see_as<Class>(given);
    if (!base) cannot(Reason::CallUnknown, "a class whose base is not a class");
    PyTypeObject* theirs = Py_TYPE(base->object);
    if (PyType_IsSubtype(meta->type(), theirs)) continue;
    if (!PyType_IsSubtype(theirs, meta->type())) cannot(Reason::CallUnknown, "a class made with two metaclasses");
    meta = static_cast<Class*>(protocol::class_value(trace, theirs));
  }
  return meta;
}

/// metaclass.__prepare__(name, bases, **keywords)
Dict* prepared(trace::Trace& trace, Class* meta, Value* name, Value* bases, const Attributes& keywords) {
  static PyObject* const prepare = intern("__prepare__");
  if (trace.type_lookup(meta->type(), prepare) == trace.type_lookup(&PyType_Type, prepare)) return trace.dict();
  Value* hook = protocol::get_attribute(trace, meta, prepare);
  auto* names = trace.see_as<Dict>(protocol::call_with(trace, hook, {name, bases}, keywords));
  if (!names || names->type != &PyDict_Type || names->existing())
    cannot(Reason::CallUnknown, "a class made in a namespace of its metaclass");
  return names;
}

}  // namespace

/// __build_class__(body, name, *bases, metaclass=, **keywords)
Value* build_class(trace::Trace& trace, const trace::Args& args) {
  static PyObject* const metaclass = intern("metaclass");
  auto* body = args.positional >= 2 ? trace.see_as<Function>(args[0]) : nullptr;
  if (!body) cannot(Reason::CallUnknown, "a class whose body is not a function");
  std::vector<Value*> bases(args.values + 2, args.values + args.positional);
  Value *asked = nullptr, *name = args[1], *given = trace.tuple(bases);
  Attributes keywords;
  for (size_t i = 0; i < args.keywords; ++i)
    if (args.names[i] == metaclass)
      asked = args[args.positional + i];
    else
      keywords.push_back({args.names[i], args[args.positional + i]});
  Class* meta = metaclass_of(trace, asked, bases);
  Dict* names = prepared(trace, meta, name, given, keywords);
  Value* returned = trace.see(static_cast<Interpreter*>(trace.inliner)->run_body(body, names));
  if (meta->type() == &PyType_Type) return protocol::make_class(trace, &PyType_Type, name, bases, names, keywords);
  Value* made = protocol::call_with(trace, meta, {name, given, names}, keywords);
  auto* cell = as<Cell>(returned);
  const bool is_class = PyType_IsSubtype(protocol::type_of(trace.see(made)), &PyType_Type);
  if (cell && is_class && trace.cell_content(cell) != trace.see(made))
    cannot(Reason::CallUnknown, "a metaclass that makes no class of the body");
  return made;
}

}  // namespace gramme::interp
