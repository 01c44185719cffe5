// What importing PyTorch's own front end changes in torch.
#include "base/text.h"
#include "builtins/torch_support.h"
#include "cpython/objects.h"
#include "torch/names.h"

namespace gramme::builtins {

namespace {

/// Module.__init__ once torch._dynamo is imported: the original in the closure, then a note of the module's generation
/// that only torch._dynamo reads, for modules it has to guard.
Value* tagged_init(Trace& trace, value::Function* function, const Args& args) {
  trace.describe(function);
  auto* cell = function->closure.empty() ? nullptr : value::as<value::Cell>(function->closure[0]);
  Value* original = cell ? trace.cell_content(cell) : nullptr;
  if (!original) cannot(Reason::CallUnknown, "torch.nn.Module.__init__ as patched by torch._dynamo");
  return protocol::call(trace, original, args);
}

/// Does gramme trace what PyTorch keeps out of its own front end's captures?
bool is_traced_anyway(PyObject* function) {
  if (!PyFunction_Check(function)) return false;
  PyCodeObject* code = cpython::code_of(cpython::as_function(function));
  return utf8_of(code->co_name) == "zero_grad" && of_torch::is_in(code->co_filename, of_torch::OptimizerFile);
}

/// torch.manual_seed once torch._dynamo is imported, and torch's other functions that keep it out: a model of the
/// function inside is as good as for the function alone.
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

/// What torch.compile gives for a function: the function, whose breaks are no errors of ours.
Value* compiled_by_dynamo(Trace& trace, value::Function* function, const Args& args) {
  static PyObject* const original = of_torch::attribute(of_torch::TorchdynamoOrigCallable);
  return protocol::call(trace, protocol::get_attribute(trace, function, original), args);
}

/// A disabled function. PyTorch disables parts of its optimizers where its own front end cannot trace them.
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

/// The step of an optimizer with a schedule, which notes that it was called: from a file that is run for real
/// otherwise.
Value* traced_step(Trace& trace, value::Function* function, const Args& args) {
  return trace.inliner->call(function, args);
}

/// torch._dynamo.graph_break(). That around the step of an optimizer is there for compilers that must see no gradient
/// recorded in a graph of its own: it is passed by where graphs run as they are.
Value* graph_break(Trace& trace, value::Function*, const Args&) {
  const PyCodeObject* code = trace.inliner->current_function()->code;
  if (!trace.contract.as_is || !of_torch::is_in(code->co_filename, of_torch::OptimizerFile))
    cannot(Reason::GraphBreakCalled);
  return trace.none();
}

constexpr char kErrorOnBreak[] = "error_on_graph_break (ErrorOnGraphBreak)";

/// torch._dynamo.error_on_graph_break: it means nothing where one graph is asked for. Otherwise the frame enters and
/// leaves it for real, and what ends within is looked at with it on.
Value* make_error_on_break(Trace& trace, value::Function* function, const Args& args) {
  if (trace.contract.breaks) cannot(Reason::CallSkipped, kErrorOnBreak);
  return trace.inliner->call(function, args);
}
Value* pass_error_on_break(Trace& trace, value::Function*, const Args&) {
  if (trace.contract.breaks) cannot(Reason::CallSkipped, kErrorOnBreak);
  return trace.none();
}

/// comptime(function): there is no tracer of PyTorch's that the function could look at; what is to happen without one
/// does.
Value* comptime(Trace& trace, value::Function* function, const Args& args) {
  static bool told = false;
  if (!std::exchange(told, true))
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
  protocol::add_function_model(of_torch::MakeErrorOnBreak, &make_error_on_break);
  protocol::add_function_model(of_torch::EnterErrorOnBreak, &pass_error_on_break);
  protocol::add_function_model(of_torch::ExitErrorOnBreak, &pass_error_on_break);
  protocol::add_function_model(of_torch::Comptime, &comptime);
}

}  // namespace gramme::builtins
