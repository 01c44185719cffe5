// Operators that run one function once, where the program calls them.
#include <algorithm>

#include "aten/state.h"
#include "base/imported.h"
#include "base/once.h"
#include "hop/body.h"
#include "torch/names.h"

namespace gramme::hop {

using namespace value;
using meta::Argument;

namespace {

void need(const Args& args, size_t positional, const Row& row) {
  if (args.positional < positional) cannot(Reason::ArgumentKind, row.name);
}

using Arguments = std::vector<Argument>;
using Keywords = std::vector<std::pair<const char*, Argument>>;

Argument sequence_of(Trace& trace, const Arguments& arguments) {
  return trace.scope().sequence_of(Argument::Tuple, arguments);
}

/// The given arguments, the body, then its inputs from outside.
Arguments around_body(Trace& trace, Arguments arguments, graph::Graph* graph) {
  arguments.push_back(trace.scope().body(graph));
  for (const Argument& argument : lifted(*graph)) arguments.push_back(argument);
  return arguments;
}

/// The body, and its inputs from outside as one tuple.
Arguments body_and_tuple(Trace& trace, graph::Graph* graph) {
  return {trace.scope().body(graph), sequence_of(trace, lifted(*graph))};
}

/// (function, (operands…)): the function called with the operands.
struct Applied {
  Value* result;
  std::vector<Tensor*> made;
  graph::Graph* graph;
};
Applied apply(Trace& trace, const Row& row, Value* function, Value* operands) {
  std::vector<Value*> items = protocol::items_of(trace, operands);
  Body body(trace, row);
  Value* result = body.call(function, {items.data(), items.size(), nullptr, 0});
  const std::vector<Tensor*> made = body.tensors(result);
  return {result, made, body.returns(made)};
}

/// Sets autocast for the tracing of a body as the operator does for its run.
class Autocast {
 public:
  explicit Autocast(PyObject* const (&given)[4]) {
    PyObject* const enter = of_torch::object(of_torch::EnterAutocast);
    mode_ = take(PyObject_Vectorcall(enter, given, std::size(given), nullptr));
  }
  ~Autocast() {
    PyObject* const leave = of_torch::object(of_torch::ExitAutocast);
    ErrorState error;
    Owned<> left = Owned<>::steal(PyObject_CallOneArg(leave, mode_.get()));
    PyErr_Clear();
  }
  Autocast(const Autocast&) = delete;

 private:
  Owned<> mode_;
};

class GradMode {
 public:
  explicit GradMode(bool on) : before_(aten::grad_enabled()) { aten::set_grad_enabled(on); }
  ~GradMode() { aten::set_grad_enabled(before_); }
  GradMode(const GradMode&) = delete;

 private:
  bool before_;
};

}  // namespace

/// wrap(function, *args, **keywords)
Value* wrap(Trace& trace, const Row& row, PyObject* op, const Args& args) {
  need(args, 1, row);
  Body body(trace, row);
  Value* result = body.call(args[0], rest(args, 1));
  const std::vector<Tensor*> made = body.tensors(result);
  graph::Graph* graph = body.returns(made);
  graph->in_place = true;
  take_results(trace, trace.scope().emit_operator(op, around_body(trace, {}, graph)), made);
  return result;
}

/// wrap_with_set_grad_enabled(enabled, function, *args, **keywords)
Value* wrap_with_grad_mode(Trace& trace, const Row& row, PyObject* op, const Args& args) {
  need(args, 2, row);
  PyObject* enabled = constant_of(trace, args[0], row.name);
  if (!PyBool_Check(enabled)) cannot(Reason::ArgumentKind, row.name);
  Body body(trace, row);
  body.operands(args[1], rest(args, 2));
  Value* result;
  {
    GradMode mode(enabled == Py_True);
    result = body.call(args[1], rest(args, 2));
  }
  const std::vector<Tensor*> made = body.tensors(result);
  body.name(made, "child");
  graph::Graph* graph = body.returns(made);
  take_results(trace, trace.scope().emit_operator(op, around_body(trace, {constant(enabled)}, graph)), made);
  return result;
}

/// wrap_with_autocast(device, dtype, enabled, cache, function, *args, **keywords)
Value* wrap_with_autocast(Trace& trace, const Row& row, PyObject* op, const Args& args) {
  need(args, 5, row);
  PyObject* given[4];
  Arguments before;
  for (size_t i = 0; i < 4; ++i) before.push_back(constant(given[i] = constant_of(trace, args[i], row.name)));
  Body body(trace, row);
  body.operands(args[4], rest(args, 5));
  Value* result;
  {
    Autocast mode(given);
    result = body.call(args[4], rest(args, 5));
  }
  const std::vector<Tensor*> made = body.tensors(result);
  body.name(made, "child");
  graph::Graph* graph = body.returns(made);
  take_results(trace, trace.scope().emit_operator(op, around_body(trace, before, graph)), made);
  return result;
}

/// dynamo_bypassing_wrapper(wrapper, function, *args, **keywords): wrapper(function)(*args, **keywords), without
/// looking into the wrapper.
Value* wrap_bypassing(Trace& trace, const Row& row, PyObject* op, const Args& args) {
  need(args, 2, row);
  PyObject* wrapper = real_function(trace, args[0], row.name);
  Body body(trace, row);
  Value* result = body.call(args[1], rest(args, 2));
  const std::vector<Tensor*> made = body.tensors(result);
  graph::Graph* graph = body.returns(made);
  graph->metadata.emplace_back(of_torch::text(of_torch::BypassingWrapper), wrapper);
  trace.scope().expect_program();
  static PyObject* const key = of_torch::attribute(of_torch::BypassingWrapper);
  take_results(trace, trace.scope().emit_operator(op, around_body(trace, {constant(key)}, graph)), made);
  return result;
}

/// hints_wrapper(function, (operands…), {}, hints={…})
Value* hints(Trace& trace, const Row& row, PyObject* op, const Args& args) {
  Value* hints = args.keyword("hints");
  if (args.positional != 3 || args.keywords != 1 || !hints || protocol::length(trace, args[2]) != 0)
    cannot(Reason::ArgumentKind, row.name);
  const Applied applied = apply(trace, row, args[0], args[1]);
  Arguments arguments = body_and_tuple(trace, applied.graph);
  arguments.push_back(trace.scope().sequence_of(Argument::Dict, {}));
  graph::Node* call = trace.scope().emit_operator(op, arguments, {{"hints", trace.scope().argument(hints)}});
  take_results(trace, call, applied.made);
  return applied.result;
}

/// strict_mode(function, (operands…))
Value* strict(Trace& trace, const Row& row, PyObject* op, const Args& args) {
  if (args.positional != 2 || args.keywords) cannot(Reason::ArgumentKind, row.name);
  const Applied applied = apply(trace, row, args[0], args[1]);
  take_results(trace, trace.scope().emit_operator(op, body_and_tuple(trace, applied.graph)), applied.made);
  return applied.result;
}

namespace {

/// A keyword of an operator, meant for its backend. An InvokeQuant is made in the graph, where backends look for it.
Argument option(Trace& trace, Value* value, const Row& row) {
  static PyObject* const low = intern("codegen_low_precision");
  value = trace.see(value);
  auto* object = as<Object>(value);
  PyObject* const type = object ? of_torch::object(of_torch::InvokeQuant) : nullptr;
  if (!object || reinterpret_cast<PyObject*>(object->type) != type) return trace.scope().argument(value);
  PyObject* flag = constant_of(trace, protocol::get_attribute(trace, object, low), row.name);
  graph::Node* made = trace.scope().emit_operator(type, {}, {{"codegen_low_precision", constant(flag)}});
  made->effect = false;
  Argument argument;
  argument.kind = Argument::Tensor;
  argument.node = made;
  return argument;
}

}  // namespace

/// A subclass of BaseHOP: operator(function, *operands, **options); the options are for backends only.
Value* base_operator(Trace& trace, const Row& row, PyObject* op, const Args& args) {
  need(args, 1, row);
  Body body(trace, row);
  Value* result = body.call(args[0], {args.values + 1, args.positional - 1, nullptr, 0});
  const std::vector<Tensor*> made = body.tensors(result);
  body.refuse_aliases(made);
  graph::Graph* graph = body.returns(made);
  if (graph->writes_around) cannot(Reason::EffectInBody, "a write to a tensor");
  const Arguments arguments = around_body(trace, {}, graph);
  const bool differentiable =
      std::any_of(made.begin(), made.end(), [](const Tensor* t) { return t->record->requires_grad; });
  Keywords keywords;
  for (size_t i = 0; i < args.keywords; ++i)
    keywords.emplace_back(PyUnicode_AsUTF8(args.names[i]), option(trace, args[args.positional + i], row));
  const bool has_objects =
      std::any_of(keywords.begin(), keywords.end(), [](const auto& each) { return each.second.node; });
  if (has_objects && differentiable && trace.contract.differentiates)
    cannot(Reason::BodyUnsupported, "a gradient through an operator with an object as option");
  take_results(trace, trace.scope().emit_operator(op, arguments, keywords), made);
  return result;
}

/// An operator without bodies: the graph gets the call unchanged.
Value* node(Trace& trace, const Row&, PyObject* op, const Args& args) { return trace.emit(op, args); }

/// invoke_subgraph_placeholder(function, *args, **keywords)
Value* region(Trace& trace, Function*, const Args& args) {
  static constexpr Row kRow = {"invoke_subgraph", "subgraph", Effects::Kept, Floats::Own, Broken::Any, nullptr};
  static PyObject* const options = intern("__marked_compile_region_config__");
  static PyObject* const unnamed = intern("");  // until the graph is complete
  PyObject* const op = of_torch::object(of_torch::InvokeSubgraph);
  need(args, 1, kRow);
  Body body(trace, kRow);
  Value* function = trace.see(args[0]);
  Value* result = body.call(function, rest(args, 1));
  const std::vector<Tensor*> made = body.tensors(result);
  if (trace.contract.functionalizes) body.refuse_aliases(made);
  graph::Graph* graph = body.returns(made);
  if (trace.contract.functionalizes && graph->writes_around) cannot(Reason::EffectInBody, "a write to a tensor");
  graph->in_place = graph->shared = true;
  PyObject* real = function->object && PyFunction_Check(function->object) ? function->object : nullptr;
  PyObject* dict = real ? reinterpret_cast<PyFunctionObject*>(real)->func_dict : nullptr;
  PyObject* config = dict ? PyDict_GetItemWithError(dict, options) : nullptr;
  if (config && config != Py_None) graph->metadata.emplace_back("nested_region_config", config);
  Arguments arguments = {trace.scope().body(graph), constant(unnamed)};
  for (const Argument& argument : lifted(*graph)) arguments.push_back(argument);
  take_results(trace, trace.scope().emit_operator(op, arguments), made);
  return result;
}

}  // namespace gramme::hop
