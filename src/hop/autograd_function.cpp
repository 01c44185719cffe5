// torch.autograd.Function.apply: traces forward at the call, with grad mode off and a context that the capture makes.
// How autograd learns of it is in autograd_link.cpp and autograd_bodies.cpp.
#include "hop/autograd_function.h"

#include <algorithm>

#include "base/imported.h"
#include "base/once.h"
#include "base/type_dict.h"
#include "cpython/objects.h"
#include "hop/body.h"
#include "hop/operators.h"
#include "torch/names.h"
#include "trace/wrappers.h"

namespace gramme::hop {

using namespace value;

const std::vector<const char*>& context_fields() {
  static const std::vector<const char*> names = {
      "to_save",           "dirty_tensors",     "non_differentiable",
      "saved_for_forward", "materialize_grads", of_torch::text(of_torch::MaterializeNonDiffGrads)};
  return names;
}

// ---- grad mode

NoGrad::NoGrad(Trace& trace) : trace_(trace), before_(aten::GlobalState::read()), was_on_(aten::grad_enabled()) {
  if (was_on_) began_ = set(false);
}

void NoGrad::end() {
  if (was_on_) ended_ = set(true);
  if (aten::GlobalState::read() != before_) cannot(Reason::BodyUnsupported, "a forward that leaves modes changed");
}

void NoGrad::forget() {
  if (was_on_) began_->effect = ended_->effect = false;
}

graph::Node* NoGrad::set(bool on) {
  PyObject* const setter = of_torch::object(of_torch::SetGradEnabled);
  aten::set_grad_enabled(on);
  return trace_.scope().emit_mode(setter, {constant(on ? Py_True : Py_False)});
}

// ---- the context

bool Applied::is_argument(const Value* value) const { return std::find(args.begin(), args.end(), value) != args.end(); }

bool Applied::is_output(const Value* value) const {
  return std::find(outputs.begin(), outputs.end(), value) != outputs.end();
}

Value* Applied::field(Trace& trace, const char* name) const {
  Value* value = find(context->slots, intern(name))->value;
  return value == trace.none() ? nullptr : value;
}

std::vector<Tensor*> Applied::tensors(Trace& trace, const char* name) const {
  std::vector<Tensor*> tensors;
  Value* value = field(trace, name);
  if (!value) return tensors;
  auto* given = trace.see_as<Tuple>(value);
  if (!given) cannot(Reason::ArgumentKind, std::string(name) + " of an autograd.Function's context");
  for (Value* item : given->items) {
    auto* tensor = trace.see_as<Tensor>(item);
    if (tensor)
      tensors.push_back(tensor);
    else if (trace.see(item) != trace.none() || strcmp(name, "to_save") != 0)
      cannot(Reason::ArgumentKind, std::string(name) + " of an autograd.Function's context");
  }
  return tensors;
}

namespace {

Object* make_context(Trace& trace, Applied& applied) {
  static PyObject* const name = of_torch::attribute(of_torch::BackwardCls);
  PyTypeObject* const base = of_torch::type(of_torch::BackwardCFunction);
  PyObject* type = PyDict_GetItem(type_dict(applied.function->type()), name);
  if (!type || !PyType_Check(type) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), base))
    cannot(Reason::BodyUnsupported, "an autograd.Function whose node is of a class of its own");
  auto* context = trace.make<Object>();
  context->type = reinterpret_cast<PyTypeObject*>(type);
  std::vector<Value*> needs;
  for (Value* arg : applied.args) {
    auto* tensor = as<Tensor>(arg);
    needs.push_back(trace.boolean(tensor && trace.scope().requires_grad(tensor)));
  }
  applied.needs_input_grad = trace.tuple(std::move(needs));
  context->slots.push_back({intern("needs_input_grad"), applied.needs_input_grad});
  for (const char* field : context_fields()) context->slots.push_back({intern(field), trace.none()});
  return context;
}

/// True if the class overrides `setup_context`.
bool has_own_setup(Trace& trace, PyTypeObject* function) {
  static PyObject* const name = intern("setup_context");
  PyTypeObject* const base = of_torch::type(of_torch::SingleLevelFunction);
  return trace.type_lookup(function, name) != cpython::type_lookup(base, name);
}

/// Adds forward's default values, as apply does if the class has a setup_context; only if that needs no
/// inspect.signature().
void add_defaults(Trace& trace, Value* forward, std::vector<Value*>& args) {
  auto* function = trace.see_as<Function>(forward);
  if (!function) cannot(Reason::BodyUnsupported, "a forward that is not a Python function");
  trace.describe(function);
  const PyCodeObject* code = function->code;
  const auto count = static_cast<size_t>(code->co_argcount);
  if (code->co_kwonlyargcount || code->co_flags & CO_VARKEYWORDS)
    cannot(Reason::BodyUnsupported, "a forward with arguments by name only");
  if (args.size() >= count) return;
  auto* defaults = function->defaults ? trace.see_as<Tuple>(function->defaults) : nullptr;
  const size_t missing = count - args.size(), known = defaults ? defaults->items.size() : 0;
  if (missing > known) cannot(Reason::BodyUnsupported, "a forward without all its arguments");
  for (size_t i = known - missing; i < known; ++i) args.push_back(trace.see(defaults->items[i]));
}

}  // namespace

void Applied::run_forward(Trace& trace) {
  static PyObject* const k_forward = intern("forward");
  static PyObject* const k_setup = intern("setup_context");
  Value* forward = protocol::get_attribute(trace, function, k_forward);
  if (has_setup) add_defaults(trace, forward, args);
  context = make_context(trace, *this);
  std::vector<Value*> all = args;
  if (!has_setup) all.insert(all.begin(), context);
  Value* result = nullptr;
  try {
    result = protocol::call(trace, forward, Args{all.data(), all.size(), nullptr, 0});
    if (has_setup)
      protocol::call(trace, protocol::get_attribute(trace, function, k_setup), {context, trace.tuple(args), result});
  } catch (const UserError& error) {
    cannot(Reason::BodyRaised, protocol::type_of(trace.see(error.exception))->tp_name);
  }
  result = trace.see(result);
  auto* several = as<Tuple>(result);
  single = !several;
  outputs = several ? several->items : std::vector<Value*>{result};
  for (Value*& output : outputs) output = trace.see(output);
}

void Applied::check(Trace& trace) const {
  static PyObject* const k_needs = intern("needs_input_grad");
  if (find(context->slots, k_needs)->value != needs_input_grad)
    cannot(Reason::BodyUnsupported, "needs_input_grad that the program sets");
  const std::vector<Tensor*> dirty = tensors(trace, "dirty_tensors");
  auto is_dirty = [&](const Tensor* tensor) { return std::find(dirty.begin(), dirty.end(), tensor) != dirty.end(); };
  for (const Tensor* tensor : dirty) {
    if (!is_output(tensor) || !is_argument(tensor) || tensor->base || !tensor->views.empty())
      cannot(Reason::BodyUnsupported, "mark_dirty() of a tensor that is not an argument, is not returned or is a view");
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    auto* tensor = as<Tensor>(outputs[i]);
    if (!tensor) {
      if (single) cannot(Reason::BodyUnsupported, "a forward that returns no tensor");
      continue;
    }
    const bool argument = is_argument(tensor);
    const bool again = std::find(outputs.begin(), outputs.begin() + static_cast<long>(i), tensor) !=
                       outputs.begin() + static_cast<long>(i);
    if (again && (!argument || is_dirty(tensor)))
      cannot(Reason::BodyUnsupported, "a result that forward returns twice");
    if (argument) continue;
    if (tensor->existing()) cannot(Reason::BodyUnsupported, "a forward that returns a tensor from outside");
    if (tensor->record->requires_grad && !tensor->differentiable)
      cannot(Reason::BodyUnsupported, "a forward that returns what has a gradient already");
  }
}

bool Applied::is_differentiable(Trace& trace, Tensor* output) const {
  const std::vector<Tensor*> without = tensors(trace, "non_differentiable");
  const meta::Record& record = *output->record;
  return (meta::is_floating_point(record) || meta::is_complex(record)) &&
         std::find(without.begin(), without.end(), output) == without.end();
}

Value* Applied::result(Trace& trace) const { return single ? outputs[0] : trace.tuple(outputs); }

namespace {

/// True if the operation may depend on the grad mode: it takes tensors that need gradients, runs Python code, or sets
/// the mode, perhaps back to an earlier one.
bool depends_on_grad_mode(const graph::Node* node) {
  if (graph::sets_grad_mode(node)) return true;
  if (node->kind == graph::Node::Body) return true;
  if (node->kind == graph::Node::CallFunction && !PyCFunction_Check(node->call.target)) return true;
  bool depends = node->record && node->record->requires_grad;
  auto visit = [&](auto&& self, const meta::Argument& argument) -> void {
    depends |= argument.record && argument.record->requires_grad;
    for (uint32_t i = 0; i < argument.count; ++i) self(self, argument.items[i]);
  };
  for (uint32_t i = 0; i < node->call.arg_count; ++i) visit(visit, node->call.args[i]);
  for (uint32_t i = 0; i < node->call.keyword_count; ++i) visit(visit, node->call.keyword_args[i]);
  return depends;
}

/// apply without gradients: returns forward's results, except that an argument is returned as a view of itself. PyTorch
/// makes two calls for that; the one of view_as() asks the tensor's class.
Value* apply_without_gradient(Trace& trace, Applied& applied) {
  static PyObject* const k_view_as = intern("view_as");
  NoGrad no_grad(trace);
  applied.run_forward(trace);
  applied.check(trace);
  if (!applied.tensors(trace, "dirty_tensors").empty())  // apply would count a write
    cannot(Reason::BodyUnsupported, "mark_dirty() where nothing is differentiated");
  applied.tensors(trace, "non_differentiable");
  applied.tensors(trace, "to_save");
  for (Value*& output : applied.outputs) {
    auto* tensor = as<Tensor>(output);
    if (!tensor || !applied.is_argument(tensor)) continue;
    output = trace.scope().requires_grad(tensor)
                 ? trace.scope().detached(tensor)
                 : protocol::call(trace, protocol::get_attribute(trace, tensor, k_view_as), {tensor});
  }
  no_grad.end();
  const auto& nodes = trace.scope().graph().nodes();
  const auto began = std::find(nodes.begin(), nodes.end(), no_grad.began());
  if (began != nodes.end() && std::none_of(began + 1, nodes.end() - 1, depends_on_grad_mode)) no_grad.forget();
  return applied.result(trace);
}

Value* apply(Trace& trace, Function*, const Args& args) {
  auto* function = args.positional ? trace.see_as<Class>(args[0]) : nullptr;
  if (!function || args.keywords || trace.is_made(function->type()))
    cannot(Reason::BodyUnsupported, "autograd.Function.apply with names, or of a class made here");
  if (trace.scope().modes().in_function_mode() || aten::GlobalState::read().transforms())
    cannot(Reason::BodyUnsupported, "autograd.Function.apply under a mode");
  Applied applied;
  applied.function = function;
  applied.has_setup = has_own_setup(trace, function->type());
  bool recorded = false;
  for (size_t i = 1; i < args.positional; ++i) {
    Value* arg = applied.args.emplace_back(trace.see(args[i]));
    if (auto* tensor = as<Tensor>(arg)) recorded |= trace.scope().requires_grad(tensor);
  }
  if (trace.scope().modes().in_level()) return apply_in_transforms(trace, applied);
  if (!recorded || !aten::grad_enabled()) return apply_without_gradient(trace, applied);
  for (Value* arg : applied.args)
    if (auto* tensor = as<Tensor>(arg)) trace::open_operand(trace, tensor);
  return trace.contract.differentiates ? apply_by_bodies(trace, applied) : apply_by_link(trace, applied);
}

/// The model for later versions of torch, where apply is a method in C.
Value* apply_in_c(Trace& trace, const Args& args) { return apply(trace, nullptr, args); }

}  // namespace

void register_autograd_function() {
  PyTypeObject* const function = of_torch::type(of_torch::AutogradFunction);
  PyObject* const raw = cpython::type_lookup(function, intern("apply"));
  if (raw && Py_IS_TYPE(raw, &PyClassMethodDescr_Type)) protocol::add_model(raw, &apply_in_c);
  protocol::add_function_model(of_torch::FunctionApply, &apply);
}

}  // namespace gramme::hop
