// What captured code sees in compiled callables: the Python they were made of.
#include "api/compiled.h"

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

/// With hooks and all, as every module: its `forward` is the compiled call of the module it was made of.
Value* call_module(Trace& trace, const Args& args) {
  static PyObject* const function = [] {
    Owned<> module = Owned<>::steal(PyImport_ImportModule("torch.nn"));
    Owned<> cls = module ? Owned<>::steal(PyObject_GetAttrString(module.get(), "Module")) : Owned<>();
    return cls ? PyObject_GetAttrString(cls.get(), "__call__") : nullptr;
  }();
  if (!function) throw PythonError();
  return protocol::call(trace, trace.pinned(function), args);
}

/// What is around a callable that is no Python function.
Value* call_wrapper(Trace& trace, value::Function* wrapper, const Args& args) {
  return trace.inliner->call(wrapper, args);
}

void add(PyTypeObject* type, const char* name, protocol::Model model) {
  if (PyObject* slot = PyDict_GetItemString(type->tp_dict, name)) protocol::add_model(slot, model);
}

}  // namespace

void register_compiled() {
  add(runtime::entry_type(), "__call__", &call_entry);
  add(runtime::entry_type(), "__get__", &bind_entry);
  add(runtime::module_call_type(), "__call__", &call_module);
  protocol::add_function_model("gramme/_compile.py", "_plain_wrapper.<locals>.call", &call_wrapper);
}

}  // namespace gramme::api
