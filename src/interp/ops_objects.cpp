// Attributes, items, operators, imports.
#include "base/text.h"
#include "interp/ops.h"
#include "trace/shown.h"

namespace gramme::interp {

using namespace value;

Step load_attr(Interpreter& interp, Frame& frame, int index) {
  Value*& top = frame.peek(1);
  top = protocol::get_attribute(interp.trace, top, frame.name(index));
  return Step::Next;
}

/// Operands stay on the stack until the instruction is done: the segment may end in what it calls.
/// Pushes function and self for methods, so that no Method is made for the call; else NULL and the attribute.
Step load_method(Interpreter& interp, Frame& frame, int index) {
  Value* found = protocol::get_attribute(interp.trace, frame.peek(1), frame.name(index));
  frame.drop(1);
  if (auto* method = as<Method>(found)) {
    frame.push(method->function);
    frame.push(method->self);
  } else if (auto* c_method = as<BuiltinMethod>(found); c_method && Py_IS_TYPE(c_method->object, &PyMethodDescr_Type)) {
    frame.push(interp.trace.pinned(c_method->object));
    frame.push(c_method->self);
  } else {
    frame.push(interp.trace.null());
    frame.push(found);
  }
  return Step::Next;
}

Step store_attr(Interpreter& interp, Frame& frame, int index) {
  trace::show(interp.trace.scope(), frame.peek(2));
  protocol::set_attribute(interp.trace, frame.peek(1), frame.name(index), frame.peek(2));
  frame.drop(2);
  return Step::Next;
}

Step delete_attr(Interpreter& interp, Frame& frame, int index) {
  protocol::delete_attribute(interp.trace, frame.peek(1), frame.name(index));
  frame.drop(1);
  return Step::Next;
}

Step binary_subscr(Interpreter& interp, Frame& frame, int) {
  Value* item = protocol::get_item(interp.trace, frame.peek(2), frame.peek(1));
  frame.drop(1);
  frame.peek(1) = item;
  return Step::Next;
}

Step store_subscr(Interpreter& interp, Frame& frame, int) {
  protocol::set_item(interp.trace, frame.peek(2), frame.peek(1), frame.peek(3));
  frame.drop(3);
  return Step::Next;
}

Step delete_subscr(Interpreter& interp, Frame& frame, int) {
  protocol::delete_item(interp.trace, frame.peek(2), frame.peek(1));
  frame.drop(2);
  return Step::Next;
}

namespace {
Step unary(Interpreter& interp, Frame& frame, protocol::Unary op) {
  frame.peek(1) = protocol::unary(interp.trace, op, frame.peek(1));
  return Step::Next;
}
}  // namespace

Step unary_positive(Interpreter& interp, Frame& frame, int) { return unary(interp, frame, protocol::Unary::Positive); }
Step unary_negative(Interpreter& interp, Frame& frame, int) { return unary(interp, frame, protocol::Unary::Negative); }
Step unary_not(Interpreter& interp, Frame& frame, int) { return unary(interp, frame, protocol::Unary::Not); }
Step unary_invert(Interpreter& interp, Frame& frame, int) { return unary(interp, frame, protocol::Unary::Invert); }

Step binary_op(Interpreter& interp, Frame& frame, int op) {
  Value* result = protocol::binary(interp.trace, op, frame.peek(2), frame.peek(1));
  frame.drop(1);
  frame.peek(1) = result;
  return Step::Next;
}

Step compare_op(Interpreter& interp, Frame& frame, int op) {
  Value* result = protocol::compare(interp.trace, op, frame.peek(2), frame.peek(1));
  frame.drop(1);
  frame.peek(1) = result;
  return Step::Next;
}

Step is_op(Interpreter& interp, Frame& frame, int inverted) {
  Value* right = frame.pop();
  bool same = protocol::same(interp.trace, frame.peek(1), right);
  frame.peek(1) = interp.trace.boolean(same != static_cast<bool>(inverted));
  return Step::Next;
}

Step contains_op(Interpreter& interp, Frame& frame, int inverted) {
  Value* found = protocol::contains(interp.trace, frame.peek(1), frame.peek(2));
  frame.drop(1);
  frame.peek(1) = inverted ? interp.trace.boolean(!protocol::truth(interp.trace, found)) : found;
  return Step::Next;
}

// ---- imports: only of modules that are imported already; others run for real

namespace {

PyObject* imported_module(PyObject* name) {
  PyObject* modules = PyImport_GetModuleDict();
  PyObject* module = PyDict_GetItem(modules, name);
  if (!module || !PyModule_Check(module)) cannot(Reason::CallSkipped, std::string("import of ") + utf8_of(name));
  return module;
}

Value* module_value(Interpreter& interp, Owned<> name) {
  PyObject* kept = interp.trace.keep(std::move(name));
  PyObject* module = imported_module(kept);
  return interp.trace.see(interp.trace.wrap(module, interp.trace.pool->module(kept)));
}

Owned<> absolute_name(Interpreter& interp, Frame& frame, PyObject* name, long level) {
  if (level == 0) return share(name);
  static PyObject* package = intern("__package__");
  Value* value = interp.trace.global(frame.globals, package);
  PyObject* base = value ? interp.trace.constant_of(value) : nullptr;
  if (!base || !PyUnicode_Check(base)) cannot(Reason::CallSkipped, "a relative import");
  std::string path = utf8_of(base);
  for (long i = 1; i < level; ++i) {
    size_t dot = path.rfind('.');
    if (dot == std::string::npos) cannot(Reason::CallSkipped, "a relative import beyond its package");
    path.resize(dot);
  }
  std::string tail = utf8_of(name);
  if (!tail.empty()) path += "." + tail;
  return take(PyUnicode_InternFromString(path.c_str()));
}

}  // namespace

Step import_name(Interpreter& interp, Frame& frame, int index) {
  Value* from = frame.pop();
  PyObject* level = interp.trace.constant_of(frame.pop());
  Owned<> name = absolute_name(interp, frame, frame.name(index), level ? PyLong_AsLong(level) : 0);
  Value* leaf = module_value(interp, name);
  std::string path = utf8_of(name.get());
  bool whole = interp.trace.see(from) == interp.trace.none() && path.find('.') != std::string::npos;
  frame.push(whole ? module_value(interp, take(PyUnicode_InternFromString(path.substr(0, path.find('.')).c_str())))
                   : leaf);
  return Step::Next;
}

Step import_from(Interpreter& interp, Frame& frame, int index) {
  PyObject* name = frame.name(index);
  Value* module = interp.trace.see(frame.peek(1));
  Value* found = protocol::find_attribute(interp.trace, module, name);
  if (!found) {
    std::string path = std::string(PyModule_GetName(module->object)) + "." + utf8_of(name);
    Owned<> full = take(PyUnicode_InternFromString(path.c_str()));
    if (!PyDict_GetItem(PyImport_GetModuleDict(), full.get())) cannot(Reason::CallSkipped, "import of " + path);
    found = module_value(interp, full);
  }
  frame.push(found);
  return Step::Next;
}

}  // namespace gramme::interp
