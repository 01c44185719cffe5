// torch._dynamo: functions that importing it replaces, its decorators, and its context managers for settings.
#include <unordered_map>
#include <vector>

#include "base/imported.h"
#include "base/once.h"
#include "base/process.h"
#include "base/text.h"
#include "builtins/torch_support.h"
#include "cpython/objects.h"
#include "torch/names.h"
#include "trace/prepared.h"

namespace gramme::builtins {

namespace {

/// Module.__init__ once torch._dynamo is imported: runs the original. The generation that it also notes is read by
/// torch._dynamo only.
Value* tagged_init(Trace& trace, value::Function* function, const Args& args) {
  trace.describe(function);
  auto* cell = function->closure.empty() ? nullptr : value::as<value::Cell>(function->closure[0]);
  Value* original = cell ? trace.cell_content(cell) : nullptr;
  if (!original) cannot(Reason::CallUnknown, "torch.nn.Module.__init__ as patched by torch._dynamo");
  return protocol::call(trace, original, args);
}

/// True for functions that PyTorch keeps out of its own captures but gramme traces.
bool is_traced_anyway(PyObject* function) {
  if (!PyFunction_Check(function)) return false;
  PyCodeObject* code = cpython::code_of(cpython::as_function(function));
  return utf8_of(code->co_name) == "zero_grad" && of_torch::is_in(code->co_filename, of_torch::OptimizerFile);
}

/// Wrappers that disable torch._dynamo on first use (torch.manual_seed …): uses the model of the wrapped function.
Value* disabled_lazily(Trace& trace, value::Function* function, const Args& args) {
  static PyObject* const name = intern("__wrapped__");
  Owned<> wrapped = Owned<>::steal(function->object ? PyObject_GetAttr(function->object, name) : nullptr);
  if (!wrapped) PyErr_Clear();
  if (auto model = wrapped ? protocol::find_model(wrapped.get()) : protocol::Modelled{}) return model(trace, args);
  if (wrapped && PyFunction_Check(wrapped.get()))
    if (auto model = protocol::find_function_model(cpython::code_of(cpython::as_function(wrapped.get()))))
      return model(trace, function, args);
  if (wrapped && is_traced_anyway(wrapped.get()))
    return protocol::call(trace, protocol::get_attribute(trace, function, name), args);
  if (function->object && protocol::treatment(function->object) != protocol::Treatment::Inline)
    cannot(Reason::CallSkipped, utf8_of(reinterpret_cast<PyFunctionObject*>(function->object)->func_qualname));
  return trace.inliner->call(function, args);
}

/// A function compiled by torch.compile: traced as the function itself.
Value* compiled_by_dynamo(Trace& trace, value::Function* function, const Args& args) {
  static PyObject* const original = of_torch::attribute(of_torch::TorchdynamoOrigCallable);
  return protocol::call(trace, protocol::get_attribute(trace, function, original), args);
}

/// A disabled function ends the segment, except parts of optimizers that PyTorch disables only for its own front end.
Value* disabled(Trace& trace, value::Function* function, const Args& args) {
  static PyObject* const k_original = of_torch::attribute(of_torch::TorchdynamoOrigCallable);
  Owned<> original = Owned<>::steal(function->object ? PyObject_GetAttr(function->object, k_original) : nullptr);
  if (!original) PyErr_Clear();
  const std::string name = function->object ? utf8_of(cpython::as_function(function->object)->func_qualname) : "";
  const bool plain = original && PyFunction_Check(original.get());
  PyCodeObject* code = plain ? cpython::code_of(cpython::as_function(original.get())) : nullptr;
  const std::string part = code ? utf8_of(code->co_name) : "";
  const bool of_optimizer = (part == of_torch::text(of_torch::InitGroup) || part.starts_with("_fused_")) &&
                            of_torch::is_in(code->co_filename, of_torch::OptimizersFolder);
  if (!of_optimizer) cannot(Reason::CallDisabled, name);
  return protocol::call(trace, protocol::get_attribute(trace, function, k_original), args);
}

/// The wrapper of step() that a learning-rate scheduler installs; traced although its file otherwise runs for real.
Value* traced_step(Trace& trace, value::Function* function, const Args& args) {
  return trace.inliner->call(function, args);
}

/// torch._dynamo.graph_break(). The one around an optimizer's step serves compilers only, so it is ignored where graphs
/// run as they are.
Value* graph_break(Trace& trace, value::Function*, const Args&) {
  const PyCodeObject* code = trace.inliner->current_function()->code;
  if (!trace.contract.as_is || !of_torch::is_in(code->co_filename, of_torch::OptimizerFile))
    cannot(Reason::GraphBreakCalled);
  return trace.none();
}

// ---- settings that the program changes for a region

/// A changed setting's former value, and the step of the change. A segment ends before a change that it does not undo.
struct Changed {
  size_t step;
  meta::DataDependence data;
};
struct Settings : std::vector<Changed> {};

Value* begin_setting(Trace& trace) {
  trace.scope().state<Settings>().push_back({trace.scope().enter_mode(), trace.data});
  return trace.none();
}

Value* end_setting(Trace& trace, const char* name) {
  auto& changed = trace.scope().state<Settings>();
  if (changed.empty()) cannot(Reason::CallSkipped, name);
  trace.data = changed.back().data;
  trace.scope().modes().leave(changed.back().step);
  changed.pop_back();
  return trace.none();
}

constexpr char kErrorOnBreak[] = "error_on_graph_break (ErrorOnGraphBreak)";

/// torch._dynamo.error_on_graph_break(). If it was entered for real because a segment ends inside, nested ones are
/// entered for real too.
Value* enter_error_on_break(Trace& trace, value::Function*, const Args&) {
  PyObject* const ask = of_torch::object(of_torch::GetErrorOnGraphBreak);
  const bool is_on = take(PyObject_CallNoArgs(ask)).get() == Py_True;
  if (is_on && trace.contract.breaks) cannot(Reason::CallSkipped, kErrorOnBreak);
  return begin_setting(trace);
}
Value* exit_error_on_break(Trace& trace, value::Function*, const Args&) { return end_setting(trace, kErrorOnBreak); }
/// A context manager of torch._dynamo that only stores its arguments.
Value* make_manager(Trace& trace, value::Function* function, const Args& args) {
  return trace.inliner->call(function, args);
}

/// torch._dynamo.override_cudagraphs(fwd, bwd): noted in the graph for its backend; later graphs after a break inside
/// lack the note.
Value* enter_cudagraphs(Trace& trace, value::Function*, const Args& args) {
  static PyObject* const k_forward = intern("fwd");
  static PyObject* const k_backward = intern("bwd");
  if (args.positional != 1 || trace.scope().graph().around()) cannot(Reason::CallSkipped, "override_cudagraphs");
  PyObject* forward = trace.constant_of(protocol::get_attribute(trace, args[0], k_forward));
  PyObject* backward = trace.constant_of(protocol::get_attribute(trace, args[0], k_backward));
  if (!forward || !backward) cannot(Reason::CallSkipped, "override_cudagraphs");
  Owned<> said =
      take(PyObject_CallFunctionObjArgs(of_torch::object(of_torch::CudagraphAnnotation), forward, backward, nullptr));
  trace.scope().graph().metadata.emplace_back("cudagraph_annotation", trace.keep(std::move(said)));
  return trace.none();
}
Value* exit_cudagraphs(Trace& trace, value::Function*, const Args&) { return trace.none(); }

constexpr char kPatch[] = "a patch of torch._dynamo.config";

/// The settings that managers made in the capture change, by manager.
struct Patches : std::unordered_map<const Value*, Owned<>> {};

/// torch._dynamo.patch_dynamo_config(settings): the settings are checked now. There is no real manager, since two calls
/// would share it; if one is needed, the segment ends before the call.
Value* make_config_patch(Trace& trace, value::Function* function, const Args& args) {
  std::vector<Owned<>> held;
  std::vector<PyObject*> values;
  for (size_t i = 0; i < args.positional + args.keywords; ++i) {
    held.push_back(trace.concrete(args.values[i]));
    values.push_back(held.back().get());
    if (!values.back()) cannot(Reason::CallSkipped, kPatch);
  }
  Owned<> names = take(PyTuple_New(static_cast<Py_ssize_t>(args.keywords)));
  for (size_t i = 0; i < args.keywords; ++i)
    PyTuple_SET_ITEM(names.get(), static_cast<Py_ssize_t>(i), Py_NewRef(args.names[i]));
  Owned<> made = function->object ? Owned<>::steal(PyObject_Vectorcall(function->object, values.data(), args.positional,
                                                                       args.keywords ? names.get() : nullptr))
                                  : Owned<>();
  if (!made) {
    PyErr_Clear();
    cannot(Reason::OperatorFailed, kPatch);
  }
  auto* manager = trace.make<value::Object>();
  manager->type = Py_TYPE(made.get());
  protocol::set_attribute(trace, manager, intern("config_patch"), trace.make<value::Super>());
  trace.state<Patches>()[manager] = take(PyObject_GetAttrString(made.get(), "changes"));
  return manager;
}

/// Entering it. Only settings that concern captures are supported; reads of torch._dynamo.config meanwhile end the
/// segment.
Value* enter_config_patch(Trace& trace, value::Function*, const Args& args) {
  static PyObject* const k_patch = intern("config_patch");
  static PyObject* const k_changes = intern("changes");
  static PyObject* const k_scalars = intern("capture_scalar_outputs");
  static PyObject* const k_ints = intern("allow_unspec_int_on_nn_module");
  if (args.positional != 1) cannot(Reason::CallSkipped, kPatch);
  Value* self = trace.see(args[0]);
  const auto& made = trace.state<Patches>();
  const auto known = made.find(self);
  Owned<> changes = known != made.end() ? share(known->second.get()) : Owned<>();
  if (!changes) {
    Value* patch = protocol::get_attribute(trace, self, k_patch);
    changes = trace.concrete(protocol::get_attribute(trace, patch, k_changes));
  }
  if (!changes || !PyDict_CheckExact(changes.get()) || PyDict_GetItem(changes.get(), k_ints))
    cannot(Reason::CallSkipped, kPatch);
  Value* entered = begin_setting(trace);
  if (PyObject* scalars = PyDict_GetItem(changes.get(), k_scalars))
    trace.data.scalars = trace.contract.symbols && (!trace.contract.breaks || PyObject_IsTrue(scalars) == 1);
  return entered;
}
Value* exit_config_patch(Trace& trace, value::Function*, const Args&) { return end_setting(trace, kPatch); }

/// torch._dynamo.config.name: traced, if the program changes no setting meanwhile.
Value* read_setting(Trace& trace, value::Function* function, const Args& args) {
  if (!trace.scope().state<Settings>().empty()) cannot(Reason::CallSkipped, "a setting that is changed meanwhile");
  return trace.inliner->call(function, args);
}

/// First access to torch.ops.name, .operator or .overload: PyTorch creates it now, which nobody observes, and the
/// capture starts again.
Value* first_touch(Trace& trace, value::Function* function, const Args& args) {
  PyTypeObject* const packet = of_torch::type(of_torch::OpOverloadPacket);
  Value* self = args.positional == 2 && !args.keywords ? trace.see(args[0]) : nullptr;
  PyObject* object = self ? self->object : nullptr;
  if (object && !PyModule_Check(object) && !Py_IS_TYPE(object, packet)) object = nullptr;
  PyObject* name = object ? trace.constant_of(args[1]) : nullptr;
  if (!name || !PyUnicode_Check(name) || utf8_of(name).starts_with("__")) return trace.inliner->call(function, args);
  Owned<> made = Owned<>::steal(PyObject_GetAttr(object, name));
  PyErr_Clear();
  Owned<> attributes = take(PyObject_GenericGetDict(object, nullptr));
  if (!made || PyDict_Contains(attributes.get(), name) != 1) return trace.inliner->call(function, args);
  throw trace::Prepared();
}

struct State {
  bool told_of_comptime = false;  // GIL, a word
};
OfProcess<State> state;

/// comptime(function): runs its fallback, since there is no tracer of PyTorch that the function could inspect.
Value* comptime(Trace& trace, value::Function* function, const Args& args) {
  if (!std::exchange(state->told_of_comptime, true))
    check(
        PyErr_WarnEx(PyExc_RuntimeWarning,
                     "gramme does not run functions given to torch._dynamo.comptime: it is no tracer of PyTorch's that "
                     "they could look at; gramme.explain and TORCH_LOGS show what is captured",
                     1));
  return trace.inliner->call(function, args);
}

}  // namespace

void register_torch_dynamo() {
  protocol::add_function_model(of_torch::TracedStep, &traced_step);
  protocol::add_function_model(of_torch::DisabledLazily, &disabled_lazily);
  protocol::add_function_model(of_torch::TaggedInit, &tagged_init);
  protocol::add_function_model(of_torch::CompiledByDynamo, &compiled_by_dynamo);
  protocol::add_function_model(of_torch::DisabledByDynamo, &disabled);
  protocol::add_function_model(of_torch::GraphBreak, &graph_break);
  protocol::add_function_model(of_torch::MakeErrorOnBreak, &make_manager);
  protocol::add_function_model(of_torch::EnterErrorOnBreak, &enter_error_on_break);
  protocol::add_function_model(of_torch::ExitErrorOnBreak, &exit_error_on_break);
  protocol::add_function_model(of_torch::MakeCudagraphs, &make_manager);
  protocol::add_function_model(of_torch::EnterCudagraphs, &enter_cudagraphs);
  protocol::add_function_model(of_torch::ExitCudagraphs, &exit_cudagraphs);
  protocol::add_function_model(of_torch::MakeConfigPatch, &make_config_patch);
  protocol::add_function_model(of_torch::EnterConfigPatch, &enter_config_patch);
  protocol::add_function_model(of_torch::ExitConfigPatch, &exit_config_patch);
  protocol::add_function_model(of_torch::ReadSetting, &read_setting);
  for (const of_torch::Code code :
       {of_torch::TouchOps, of_torch::TouchNamespace, of_torch::TouchHigherOrder, of_torch::TouchPacket})
    protocol::add_function_model(code, &first_touch);
  protocol::add_function_model(of_torch::Comptime, &comptime);
}

}  // namespace gramme::builtins
