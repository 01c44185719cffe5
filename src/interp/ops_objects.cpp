// Attributes, items, operators, imports.
#include "base/imported.h"
#include "base/once.h"
#include "base/text.h"
#include "cpython/encoding.h"
#include "cpython/objects.h"
#include "interp/ops.h"

namespace gramme::interp {

using namespace value;

Step load_attr(Interpreter& interp, Frame& frame, int index) {
  Value*& top = frame.peek(1);
  top = protocol::get_attribute(interp.trace, top, frame.name(index));
  return Step::Next;
}

/// Pushes function and self for a method, to avoid making a Method; otherwise the attribute and a NULL.
void push_for_call(Interpreter& interp, Frame& frame, Value* found) {
  if (auto* method = as<Method>(found)) {
    frame.push_method(method->function, method->self);
  } else if (auto* c_method = as<BuiltinMethod>(found); c_method && Py_IS_TYPE(c_method->object, &PyMethodDescr_Type)) {
    frame.push_method(interp.trace.pinned(c_method->object), c_method->self);
  } else {
    frame.push_callable(found, interp.trace.null());
  }
}

/// Operands stay on the stack until the instruction is done, because the segment may end in what it calls.
Step load_method(Interpreter& interp, Frame& frame, int index) {
  Value* found = protocol::get_attribute(interp.trace, frame.peek(1), frame.name(index));
  frame.drop(1);
  push_for_call(interp, frame, found);
  return Step::Next;
}

namespace {
/// Stack: `super`, class, self, where class and self are those that super() without arguments finds.
Value* attribute_of_super(Interpreter& interp, Frame& frame, int arg) {
  trace::Trace& trace = interp.trace;
  Value* called = trace.see(frame.peek(3));
  const bool is_super = called->object == reinterpret_cast<PyObject*>(&PySuper_Type);
  std::vector<Value*> arguments;
  if (is_super || (arg & 1)) arguments = {frame.peek(2), frame.peek(1)};
  Value* object = protocol::call_with(trace, called, arguments, {});
  Value* found = protocol::get_attribute(trace, object, frame.name(arg >> 1));
  frame.drop(3);
  return found;
}
}  // namespace

Step load_super_attr(Interpreter& interp, Frame& frame, int arg) {
  frame.push(attribute_of_super(interp, frame, arg));
  return Step::Next;
}

Step load_super_method(Interpreter& interp, Frame& frame, int arg) {
  push_for_call(interp, frame, attribute_of_super(interp, frame, arg));
  return Step::Next;
}

Step load_special(Interpreter& interp, Frame& frame, int index) {
  trace::Trace& trace = interp.trace;
  Value* found = protocol::special_method(trace, trace.see(frame.peek(1)), cpython::special_name(index));
  if (!found) cannot(Reason::CallUnknown, "`with` on an object that is not a context manager");
  frame.drop(1);
  push_for_call(interp, frame, found);
  return Step::Next;
}

Step store_attr(Interpreter& interp, Frame& frame, int index) {
  interp.trace.scope().shown().look_at(frame.peek(2));
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
Slice* popped_slice(Interpreter& interp, Frame& frame) {
  auto* slice = interp.trace.make<Slice>();
  slice->step = interp.trace.none();
  slice->stop = frame.pop();
  slice->start = frame.pop();
  return slice;
}
}  // namespace

Step binary_slice(Interpreter& interp, Frame& frame, int) {
  Slice* slice = popped_slice(interp, frame);
  frame.peek(1) = protocol::get_item(interp.trace, frame.peek(1), slice);
  return Step::Next;
}

Step store_slice(Interpreter& interp, Frame& frame, int) {
  Slice* slice = popped_slice(interp, frame);
  protocol::set_item(interp.trace, frame.peek(1), slice, frame.peek(2));
  frame.drop(2);
  return Step::Next;
}

Step to_bool(Interpreter& interp, Frame& frame, int) {
  frame.peek(1) = interp.trace.boolean(protocol::truth(interp.trace, frame.peek(1)));
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

// ---- imports: only of modules that sys.modules holds, which CPython answers without asking a loader; others, and all
// that raise, run for real

namespace {

PyObject* imported_module(PyObject* name) {
  PyObject* modules = PyImport_GetModuleDict();
  PyObject* module = PyDict_GetItemWithError(modules, name);
  if (!module || !PyModule_Check(module)) cannot(Reason::CallSkipped, std::string("import of ") + utf8_of(name));
  return module;
}

Value* module_value(Interpreter& interp, Owned<> name) {
  PyObject* kept = interp.trace.keep(std::move(name));
  PyObject* module = imported_module(kept);
  return interp.trace.see(interp.trace.wrap(module, interp.trace.pool->module(kept)));
}

/// Ends the segment if `__import__` is not the interpreter's own: another one would see the frame's globals and locals.
void refuse_other_import(Interpreter& interp, Frame& frame) {
  static PyObject* const name = intern("__import__");
  PyObject* const builtins = once([] { return import_module("builtins"); });
  Value* found = interp.trace.global(frame.builtins, name);
  auto* function = found ? as<Builtin>(interp.trace.see(found)) : nullptr;
  PyObject* real = function ? function->object : nullptr;
  const bool own = real && PyCFunction_Check(real) && PyCFunction_GET_SELF(real) == builtins &&
                   strcmp(reinterpret_cast<PyCFunctionObject*>(real)->m_ml->ml_name, "__import__") == 0;
  if (!own) cannot(Reason::CallSkipped, "an import by another __import__");
}

/// `__package__` of the globals; ends the segment if `__spec__` disagrees with it.
std::string package_of(Interpreter& interp, Frame& frame) {
  static PyObject *const package = intern("__package__"), *const spec = intern("__spec__");
  Value* value = interp.trace.global(frame.globals, package);
  PyObject* base = value ? interp.trace.constant_of(value) : nullptr;
  if (!base || !PyUnicode_Check(base)) cannot(Reason::CallSkipped, "a relative import");
  Value* described = interp.trace.global(frame.globals, spec);
  if (!described || interp.trace.see(described) == interp.trace.none()) return utf8_of(base);
  if (interp.trace.see(described)->kind != Kind::Object) cannot(Reason::CallSkipped, "a relative import");
  Value* parent = protocol::find_attribute(interp.trace, described, intern("parent"));
  PyObject* text = parent ? interp.trace.constant_of(parent) : nullptr;
  if (!text || !PyUnicode_Check(text) || PyUnicode_Compare(text, base) != 0)
    cannot(Reason::CallSkipped, "a relative import");
  return utf8_of(base);
}

Owned<> absolute_name(Interpreter& interp, Frame& frame, PyObject* name, long level) {
  if (level == 0) return share(name);
  std::string path = package_of(interp, frame);
  for (long i = 1; i < level; ++i) {
    size_t dot = path.rfind('.');
    if (dot == std::string::npos) cannot(Reason::CallSkipped, "a relative import beyond its package");
    path.resize(dot);
  }
  std::string tail = utf8_of(name);
  if (!tail.empty()) path += "." + tail;
  return take(PyUnicode_InternFromString(path.c_str()));
}

/// True if the module is being imported now, so that an import may wait for another thread.
bool is_under_way(PyObject* module) {
  static PyObject *const spec = intern("__spec__"), *const flag = intern("_initializing");
  PyObject* found = PyDict_GetItemWithError(PyModule_GetDict(module), spec);
  if (!found || found == Py_None) return false;
  auto* type = Py_TYPE(found);
  if (type->tp_getattro != PyObject_GenericGetAttr || cpython::type_lookup(type, flag)) return true;
  PyObject* value = nullptr;
  cpython::instance_attribute(found, flag, &value);
  return value && value != Py_False;
}

/// Ends the segment if importlib's _handle_fromlist would import a submodule, for a name that the package lacks.
void refuse_submodules(Interpreter& interp, Value* package, Value* names) {
  static PyObject* const path = intern("__path__");
  auto* wanted = as<Tuple>(interp.trace.see(names));
  PyObject* constant = wanted ? nullptr : interp.trace.constant_of(names);
  if (!wanted && !(constant && PyTuple_Check(constant))) cannot(Reason::CallSkipped, "an import of names in no tuple");
  if (!protocol::find_attribute(interp.trace, package, path)) return;
  const size_t count = wanted ? wanted->items.size() : static_cast<size_t>(PyTuple_GET_SIZE(constant));
  for (size_t i = 0; i < count; ++i) {
    PyObject* name = wanted ? interp.trace.constant_of(wanted->items[i]) : PyTuple_GET_ITEM(constant, i);
    if (!name || !PyUnicode_CheckExact(name)) cannot(Reason::CallSkipped, "an import whose name is not a str");
    PyObject* asked = interp.trace.keep(take(PyUnicode_InternFromString(utf8_of(name).c_str())));
    if (!protocol::find_attribute(interp.trace, package, asked))
      cannot(Reason::CallSkipped, "import of " + std::string(PyModule_GetName(package->object)) + "." + utf8_of(name));
  }
}

}  // namespace

Step import_name(Interpreter& interp, Frame& frame, int index) {
  Value* from = frame.pop();
  PyObject* level = interp.trace.constant_of(frame.pop());
  refuse_other_import(interp, frame);
  Owned<> name = absolute_name(interp, frame, frame.name(index), level ? PyLong_AsLong(level) : 0);
  Value* leaf = module_value(interp, name);
  if (is_under_way(leaf->object)) cannot(Reason::CallSkipped, "an import of a module that is being imported");
  std::string path = utf8_of(name.get());
  const bool whole = interp.trace.see(from) == interp.trace.none();
  if (!whole) refuse_submodules(interp, leaf, from);
  size_t dot = whole ? path.find('.') : std::string::npos;
  frame.push(dot == std::string::npos
                 ? leaf
                 : module_value(interp, take(PyUnicode_InternFromString(path.substr(0, dot).c_str()))));
  return Step::Next;
}

/// Pushes the module's attribute, or else the submodule in sys.modules.
Step import_from(Interpreter& interp, Frame& frame, int index) {
  static PyObject* const own_name = intern("__name__");
  PyObject* name = frame.name(index);
  Value* module = interp.trace.see(frame.peek(1));
  Value* found = protocol::find_attribute(interp.trace, module, name);
  if (!found) {
    Value* of = protocol::find_attribute(interp.trace, module, own_name);
    PyObject* package = of ? interp.trace.constant_of(of) : nullptr;
    if (!package || !PyUnicode_Check(package)) cannot(Reason::CallSkipped, "import of " + utf8_of(name));
    found = module_value(interp, take(PyUnicode_InternFromString((utf8_of(package) + "." + utf8_of(name)).c_str())));
  }
  frame.push(found);
  return Step::Next;
}

}  // namespace gramme::interp
