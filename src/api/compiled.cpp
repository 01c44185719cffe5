// Models of compiled callables in captured code: a call goes on in the Python function that was compiled.
#include "api/compiled.h"

#include "base/imported.h"
#include "base/once.h"
#include "base/type_dict.h"
#include "protocol/names.h"
#include "protocol/protocol.h"
#include "runtime/entry.h"
#include "runtime/module_call.h"

namespace gramme::api {
namespace {

using protocol::Args;
using protocol::Trace;
using value::Value;

Value* call_entry(Trace& trace, const Args& args) {
  auto* made = trace.see_as<value::Object>(args[0]);
  if (made && made->made_by >= 0 && made->payload)
    return protocol::call(trace, made->payload, {args.values + 1, args.positional - 1, args.names, args.keywords});
  Value* function = protocol::get_attribute(trace, args[0], protocol::names::k_wrapped);
  return protocol::call(trace, function, {args.values + 1, args.positional - 1, args.names, args.keywords});
}

Value* bind_entry(Trace& trace, const Args& args) {
  if (trace.see(args[1]) == trace.none()) return args[0];
  auto* method = trace.make<value::Method>();
  method->function = args[0];
  method->self = args[1];
  return method;
}

/// The wrapper of a compiled callable that is no Python function.
Value* call_wrapper(Trace& trace, value::Function* wrapper, const Args& args) {
  return trace.inliner->call(wrapper, args);
}

/// Calls gramme.compile with these options on a function, to see whether it accepts them; returns the result.
Owned<> try_options(Trace& trace, value::Function* compile, const Args& args) {
  Owned<> options = take(PyDict_New()), model = take(PyTuple_Pack(1, compile->object));
  for (size_t i = 0; i < args.keywords; ++i) {
    Value* value = trace.see(args.values[args.positional + i]);
    Owned<> option = value->kind == value::Kind::Function ? share(value->object) : trace.concrete(value);
    if (!option) return {};
    check(PyDict_SetItem(options.get(), args.names[i], option.get()));
  }
  Owned<> made = Owned<>::steal(PyObject_Call(compile->object, model.get(), options.get()));
  PyErr_Clear();  // the uncaptured call will raise the same
  return made;
}

/// gramme.compile(function, …): replay makes the compiled function, while the capture calls the function itself.
Value* make_entry(Trace& trace, value::Function* compile, const Args& args) {
  PyObject* const with_options = once([] {
    Owned<> module = take(import_module("gramme._compile"));
    return take(PyObject_GetAttrString(module.get(), "compile_with")).release();
  });
  auto* function = args.positional == 1 ? trace.see_as<value::Function>(args[0]) : nullptr;
  Owned<> tried = function && compile->object ? try_options(trace, compile, args) : Owned<>();
  if (tried && tried.get() == compile->object) return function;  // disable=True
  if (!tried || !Py_IS_TYPE(tried.get(), runtime::entry_type())) cannot(Reason::CallSkipped, "gramme.compile");
  std::vector<Value*> names;
  for (size_t i = 0; i < args.keywords; ++i) names.push_back(trace.constant(args.names[i]));
  std::vector<Value*> operands{trace.tuple(std::move(names)), function};
  operands.insert(operands.end(), args.values + 1, args.values + 1 + args.keywords);
  auto* made = trace.make<value::Object>();
  made->type = runtime::entry_type();
  made->payload = function;
  trace.call_in_replay(with_options, std::move(operands), made);
  return made;
}

void add(PyTypeObject* type, const char* name, protocol::Model model) {
  if (PyObject* slot = PyDict_GetItemString(type_dict(type), name)) protocol::add_model(slot, model);
}

}  // namespace

void register_compiled() {
  add(runtime::entry_type(), "__call__", &call_entry);
  add(runtime::entry_type(), "__get__", &bind_entry);
  protocol::add_function_model("gramme/_compile.py", "compile", &make_entry);
  protocol::add_function_model("gramme/_module.py", "_call_in_python", &call_wrapper);
  protocol::add_function_model("gramme/_module.py", "_compiled_forward.<locals>.forward", &call_wrapper);
  protocol::add_function_model("gramme/_compile.py", "_plain_wrapper.<locals>.call", &call_wrapper);
}

}  // namespace gramme::api
