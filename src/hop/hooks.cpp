// Hooks on tensors that the graph makes: the graph registers them at their place in the program.
//
// A backend that runs the graph as it is gets the program's own function, which autograd calls as in eager. A backend
// that differentiates the graph gets the hook as a body, if the hook does the same whenever it runs; under compiled
// autograd it gets a call of the hook itself.
#include "base/imported.h"
#include "base/once.h"
#include "base/process.h"
#include "base/type_dict.h"
#include "cpython/objects.h"
#include "hop/body.h"
#include "hop/operators.h"
#include "protocol/tensors.h"
#include "torch/names.h"
#include "trace/bodies.h"
#include "trace/custom_views.h"
#include "trace/made_by_graph.h"
#include "trace/read_later.h"
#include "value/views.h"

namespace gramme::hop {

using namespace value;
using meta::Argument;

namespace {

/// The earlier models, which remain in use for all other tensors.
struct Before {
  protocol::Modelled register_hook, retain_grad, remove;
};
AtLoad<Before> before;

Tensor* made_in_graph(Trace& trace, const Args& args, size_t count) {
  auto* tensor = args.positional == count && !args.keywords ? trace.see_as<Tensor>(args[0]) : nullptr;
  const bool made = tensor && !tensor->existing() && tensor->node &&
                    trace.scope().writes().late(tensor) != effects::Late::Closed && !trace.scope().modes().in_level() &&
                    trace.scope().requires_grad(tensor);
  return made ? tensor : nullptr;
}

/// The handle of a hook that the graph registers. A graph that runs as it is returns it. Other graphs have none, and a
/// use of the handle ends the segment.
Object* handle_in_graph(Trace& trace, graph::Node* node = nullptr) {
  PyObject* const type = of_torch::object(of_torch::RemovableHandle);
  auto* handle = trace.make<Object>();
  handle->type = reinterpret_cast<PyTypeObject*>(type);
  for (const char* name : {"id", "hooks_dict_ref", "extra_dict_ref"})
    handle->attributes.push_back({intern(name), trace.make<Super>()});  // cannot be rebuilt
  if (node) trace.scope().state<trace::MadeByGraph>().nodes.emplace(handle, node);
  return handle;
}

bool is_in_graph(const Object* handle) {
  return !handle->existing() && !handle->attributes.empty() && handle->attributes.begin()->value->kind == Kind::Super;
}

PyObject* method_of_tensor() {
  return once(
      [] { return take(PyObject_GetAttrString(imported("torch", "Tensor").get(), "register_hook")).release(); });
}

/// Finds a real object for a hook: the program's own, or an equivalent one. Null if the hook refers to values that the
/// capture makes, or to objects that differ from call to call.
class AsObject {
 public:
  explicit AsObject(Trace& trace) : trace_(trace) {}

  Owned<> operator()(Value* value) {
    Owned<> object = part(value);
    if (object)
      for (Cell* cell : cells_) trace_.scope().state<trace::ReadLater>().keep_cell(trace_, cell);
    return object;
  }

 private:
  using Capture = trace::Capture;

  Owned<> part(Value* value) {
    Capture::Deeper deeper(trace_);
    value = trace_.see(value);
    if (value->kind == Kind::Constant || (value->source && value->source->kind == source::Kind::Pinned))
      return share(value->object);
    if (auto* method = as<Method>(value)) return bound(method);
    if (value->existing()) return held(value);
    if (value->kind == Kind::Builtin) return share(value->object);
    if (auto* function = as<Function>(value)) return made(function);
    if (auto* partial = as<Partial>(value)) return made(partial);
    return {};
  }

  Owned<> held(Value* value) {
    if (value->kind == Kind::Tensor || value->kind == Kind::Number || !value->object) return {};
    const auto before = trace_.policy.held.find(value->source->path);
    if (before != trace_.policy.held.end() && before->second.address != value->object) return {};
    trace_.facts.add({value->source, guards::Kind::Identity, share(value->object)});
    return share(value->object);
  }

  Owned<> bound(Method* method) {
    Owned<> function = part(method->function), self = function ? part(method->self) : Owned<>();
    return self ? take(PyMethod_New(function.get(), self.get())) : Owned<>();
  }

  Owned<> made(Function* function) {
    if (function->object || !function->globals->object || function->kwdefaults) return {};
    auto* code = reinterpret_cast<PyObject*>(function->code);
    Owned<> defaults, cells = take(PyTuple_New(static_cast<Py_ssize_t>(function->closure.size())));
    if (function->defaults && !(defaults = items(trace_.see_as<Tuple>(function->defaults)->items))) return {};
    for (size_t i = 0; i < function->closure.size(); ++i) {
      Owned<> cell = cell_of(trace_.see_as<Cell>(function->closure[i]));
      if (!cell) return {};
      PyTuple_SET_ITEM(cells.get(), static_cast<Py_ssize_t>(i), cell.release());
    }
    Owned<> result = take(PyFunction_New(code, function->globals->object));
    if (defaults) check(PyFunction_SetDefaults(result.get(), defaults.get()));
    if (!function->closure.empty()) check(PyFunction_SetClosure(result.get(), cells.get()));
    return result;
  }

  Owned<> made(Partial* partial) {
    PyObject* const type = once([] { return imported("functools", "partial").release(); });
    Owned<> function = part(partial->function), args = function ? items(partial->args) : Owned<>();
    if (!args || !partial->attributes.empty()) return {};
    Owned<> keywords = take(PyDict_New()), given = take(PyTuple_Pack(1, function.get()));
    for (const Attribute& keyword : partial->keywords) {
      Owned<> value = part(keyword.value);
      if (!value) return {};
      check(PyDict_SetItem(keywords.get(), keyword.name, value.get()));
    }
    Owned<> all = take(PySequence_Concat(given.get(), args.get()));
    return take(PyObject_Call(type, all.get(), keywords.get()));
  }

  /// A cell made in the capture must keep its content to the end, and no other value may get it.
  Owned<> cell_of(Cell* cell) {
    if (cell->existing()) return held(cell);
    Owned<> content = cell->content ? part(cell->content) : Owned<>();
    if (!content) return {};
    cells_.push_back(cell);
    return take(PyCell_New(content.get()));
  }

  Owned<> items(const std::vector<Value*>& values) {
    Owned<> result = take(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
    for (size_t i = 0; i < values.size(); ++i) {
      Owned<> item = part(values[i]);
      if (!item) return {};
      PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i), item.release());
    }
    return result;
  }

  Trace& trace_;
  std::vector<Cell*> cells_;  // made in the capture
};

/// The name of the hook's parameter for the gradient.
const char* name_of_gradient(Trace& trace, Value* hook) {
  auto* method = as<Method>(hook);
  auto* function = method ? trace.see_as<Function>(method->function) : as<Function>(hook);
  if (!function) return "grad";
  trace.describe(function);
  const int at = method ? 1 : 0;
  if (function->code->co_argcount <= at) return "grad";
  PyObject* names = trace.keep(take(PyCode_GetVarnames(function->code)));
  return PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, at));
}

/// While it exists, the program may use only facts about gradients that are known at capture.
class OfGradients {
 public:
  explicit OfGradients(Trace& trace) : depth_(trace.confinement.of_gradients) { ++depth_; }
  ~OfGradients() { --depth_; }
  OfGradients(const OfGradients&) = delete;

 private:
  int& depth_;
};

/// Backward reads the body's inputs as they are at that time. Code outside of the graph may have written them; the code
/// that runs the graph checks.
void watch_what_it_takes(Trace& trace, const graph::Graph* body) {
  auto& read = trace.scope().state<trace::ReadByHooks>();
  for (const auto& taken : trace.scope().state<trace::TakenByBodies>().tensors) {
    if (!taken.body || !taken.body->is_in(body)) continue;
    Tensor* root = storage_root(taken.tensor);
    if (root->existing())
      read.inputs.push_back(root->node ? root->node : taken.tensor->node);
    else
      read.made.emplace(root, trace.steps());
  }
}

/// Traces a hook into a body.
graph::Graph* hook_body(Trace& trace, const Tensor* tensor, Value* hook) {
  Body body(trace, "hook_body", Effects::Forbidden);
  OfGradients of_gradients(trace);
  body.runs_later();
  Value* gradient = body.input(meta::with_requires_grad(tensor->record, false, true), name_of_gradient(trace, hook));
  Value* result = trace.see(body.call(hook, {&gradient, 1, nullptr, 0}));
  auto* replaced = as<Tensor>(result);
  if (!replaced && trace.constant_of(result) != Py_None) cannot(Reason::BodyUnsupported, "a hook's result");
  if (replaced &&
      (replaced->record->sizes != tensor->record->sizes || replaced->record->dtype != tensor->record->dtype ||
       meta::device_object(*replaced->record) != meta::device_object(*tensor->record)))
    cannot(Reason::BodyUnsupported, "a hook's result");
  return body.returns(replaced ? trace.scope().argument(replaced) : constant(Py_None));
}

/// The same. If the hook cannot be a body, the graph is captured again and the hook is registered after it.
graph::Graph* body_or_late(Trace& trace, const Tensor* tensor, Value* hook) {
  try {
    return hook_body(trace, tensor, hook);
  } catch (const CannotCapture& refused) {
    if (refused.reason == Reason::Budget || refused.reason == Reason::TooDeep) throw;
    throw trace::HookLeaves{trace.steps()};
  }
}

// ---- under compiled autograd

/// True if a backward pass in the thread's present state would be compiled by PyTorch's compiled autograd.
bool compiles_backward(Trace& trace) {
  static PyObject* const name = intern("compiled_autograd_enabled");
  PyObject* module = of_torch::if_loaded(of_torch::CompiledAutograd);
  if (!module) return false;
  return trace.constant_of(protocol::get_attribute(trace, trace.pinned(module), name)) == Py_True;
}

/// The reserved input that holds hooks: a new object at each call, filled by replay (gramme/_hooks.py). Kept with the
/// scope.
struct StateOfHooks {
  Object* state = nullptr;
  Argument argument;
  int hooks = 0;
};

StateOfHooks& state_of_hooks(Trace& trace) {
  PyObject* const type = of_torch::object(of_torch::BackwardState);
  PyObject* const marker = once([] { return imported("gramme._hooks", "state").release(); });
  auto& hooks = trace.scope().state<StateOfHooks>();
  if (hooks.state) return hooks;
  hooks.state = trace.make<Object>();
  hooks.state->type = reinterpret_cast<PyTypeObject*>(type);
  hooks.argument = trace.scope().attribute("backward_state", marker);
  trace.scope().state<trace::MadeByGraph>().nodes.emplace(hooks.state, hooks.argument.node);
  return hooks;
}

/// The graph registers a function that calls whichever hook the backward state holds when backward runs.
Value* register_by_state(Trace& trace, Tensor* tensor, Value* hook) {
  PyObject* const target = once([] { return imported("gramme._hooks", "register_from_state").release(); });
  PyObject* const set = once([] { return imported("builtins", "setattr").release(); });
  StateOfHooks& hooks = state_of_hooks(trace);
  Value* name = trace.constant(trace.keep(take(PyUnicode_FromFormat("hook%d", hooks.hooks++))));
  trace.scope().emit_operator(target, {trace.scope().argument(tensor), hooks.argument, trace.scope().argument(name)});
  trace.call_in_replay(set, {hooks.state, name, hook});
  trace.scope().hook_inside(tensor);
  return handle_in_graph(trace);
}

// ---- full backward hooks of modules, under compiled autograd

/// torch.utils.hooks.BackwardHook: a module's backward hooks during a call of it.
PyObject* class_of_hooks() {
  return once([] { return imported("torch.utils.hooks", "BackwardHook").release(); });
}

/// BackwardHook objects that the graph has set up. Kept with the scope.
struct SetUpInGraph {
  std::unordered_map<const Object*, Argument> hooks;
};

/// Ends the segment, so that BackwardHook's own code runs.
[[noreturn]] void set_up_for_real() { cannot(Reason::CallSkipped, "torch.utils.hooks.BackwardHook"); }

bool graph_may_set_up(Trace& trace) {
  return trace.contract.differentiates && aten::grad_enabled() && !trace.scope().modes().in_level() &&
         !trace.scope().graph().around() && !trace.confinement.any() && compiles_backward(trace);
}

/// BackwardHook(module, user_hooks, user_pre_hooks), an ordinary object until it is set up.
Value* make_hooks_of_module(Trace& trace, const Args& args) {
  if (args.positional != 3 || args.keywords || !graph_may_set_up(trace)) set_up_for_real();
  auto* made = trace.make<Object>();
  made->type = reinterpret_cast<PyTypeObject*>(class_of_hooks());
  auto set = [&](const char* name, Value* value) { made->attributes.push_back({intern(name), value}); };
  set("user_hooks", args[1]);
  set("user_pre_hooks", args[2]);
  set("module", args[0]);
  set("grad_outputs", trace.none());
  set("n_outputs", trace.integer(-1));
  set("output_tensors_index", trace.none());
  set("n_inputs", trace.integer(-1));
  set("input_tensors_index", trace.none());
  return made;
}

/// The inputs or the results of the module's call, as hooks see them.
struct Seen {
  std::vector<Value*> all;
  std::vector<size_t> places;  // indices of the tensors
  bool is_differentiated = false;
};

Seen seen_by_hooks(Trace& trace, Value* given, bool may_be_single) {
  Seen seen;
  given = trace.see(given);
  auto* several = as<Tuple>(given);
  if (several ? several->type != &PyTuple_Type : !may_be_single) set_up_for_real();
  for (Value* value : several ? several->items : std::vector<Value*>{given}) {
    auto* tensor = trace.see_as<Tensor>(value);
    if (tensor) {
      if (trace.scope().writes().late(tensor) == effects::Late::Closed) set_up_for_real();
      protocol::refuse_subclass(tensor, "BackwardHook");
      seen.places.push_back(seen.all.size());
      seen.is_differentiated |= trace.scope().requires_grad(tensor);
    }
    seen.all.push_back(tensor ? tensor : value);
  }
  if (!seen.is_differentiated) set_up_for_real();
  return seen;
}

/// Adds a node that sets up the hooks and returns a new tensor for each one, and puts those in their places.
void set_up_in_graph(Trace& trace, PyObject* target, const Argument& hooks, Seen& seen) {
  static PyObject* const k_view_as = intern("view_as");
  auto number = [&](size_t n) { return constant(trace.keep(take(PyLong_FromSize_t(n)))); };
  std::vector<Argument> places, tensors;
  std::vector<Tensor*> views;
  for (size_t place : seen.places) {
    Value* both[] = {seen.all[place], seen.all[place]};
    const bool differentiated = trace.scope().requires_grad(static_cast<Tensor*>(seen.all[place]));
    auto* view = as<Tensor>(trace.scope().emit_method(k_view_as, Args{both, 2, nullptr, 0}));
    if (!view) set_up_for_real();
    places.push_back(number(place));
    tensors.push_back(trace.scope().argument(view));
    view->record = meta::with_requires_grad(view->record, differentiated, !differentiated);
    seen.all[place] = view;
    views.push_back(view);
  }
  graph::Node* node = trace.scope().emit_operator(
      target, {hooks, trace.scope().sequence_of(Argument::List, places), number(seen.all.size()),
               trace.scope().sequence_of(Argument::Tuple, tensors)});
  for (size_t i = 0; i < views.size(); ++i) {
    views[i]->node = trace.scope().item(node, i, views[i]->record);
    trace.scope().writes().keep_unwritten(views[i]);
    trace.scope().state<trace::CustomViews>().push_back(views[i]);
  }
}

/// hook.setup_input_hook(inputs)
Value* set_up_inputs(Trace& trace, const Args& args) {
  PyObject* const make = once([] { return imported("gramme._hooks", "hooks_of_module").release(); });
  PyObject* const target = once([] { return imported("gramme._hooks", "set_up_inputs").release(); });
  PyObject* const set = once([] { return imported("builtins", "setattr").release(); });
  auto* hook = args.positional == 2 && !args.keywords ? trace.see_as<Object>(args[0]) : nullptr;
  if (!hook || hook->existing() || !graph_may_set_up(trace)) set_up_for_real();
  auto& in_graph = trace.scope().state<SetUpInGraph>().hooks;
  auto part = [&](const char* name) { return protocol::get_attribute(trace, hook, intern(name)); };
  Value *module = part("module"), *hooks = part("user_hooks"), *pre_hooks = part("user_pre_hooks");
  Seen seen = seen_by_hooks(trace, args[1], false);
  StateOfHooks& state = state_of_hooks(trace);
  const std::string name = "module" + std::to_string(state.hooks++);
  auto keep = [&](const std::string& as, Value* value) {
    Value* named = trace.constant(trace.keep(take(PyUnicode_FromString(as.c_str()))));
    trace.call_in_replay(set, {state.state, named, value});
    return named;
  };
  Value* named = keep(name, module);
  keep("hooks_of_" + name, hooks);
  keep("pre_hooks_of_" + name, pre_hooks);
  Argument made;
  made.kind = Argument::Tensor;
  made.node = trace.scope().emit_operator(make, {state.argument, trace.scope().argument(named)});
  in_graph.insert_or_assign(hook, made);
  hook->attributes.push_back({intern("in_graph"), trace.make<Super>()});  // cannot be rebuilt
  set_up_in_graph(trace, target, made, seen);
  return trace.tuple(seen.all);
}

/// hook.setup_output_hook(result)
Value* set_up_outputs(Trace& trace, const Args& args) {
  PyObject* const target = once([] { return imported("gramme._hooks", "set_up_outputs").release(); });
  auto* hook = args.positional == 2 && !args.keywords ? trace.see_as<Object>(args[0]) : nullptr;
  auto& in_graph = trace.scope().state<SetUpInGraph>().hooks;
  const auto made = hook ? in_graph.find(hook) : in_graph.end();
  if (made == in_graph.end() || !graph_may_set_up(trace)) set_up_for_real();
  const bool single = !as<Tuple>(trace.see(args[1]));
  Seen seen = seen_by_hooks(trace, args[1], true);
  for (size_t place : seen.places)  // a compiled graph makes views of inputs anew
    if (storage_root(static_cast<Tensor*>(seen.all[place]))->existing()) set_up_for_real();
  set_up_in_graph(trace, target, made->second, seen);
  return single ? seen.all[0] : trace.tuple(seen.all);
}

// ----

/// The graph calls the method. If the hook's object is known only after the graph ran, a placeholder is registered
/// until then.
Value* register_as_it_is(Trace& trace, Tensor* tensor, Value* hook) {
  PyObject* const pending = once([] { return imported("gramme._hooks", "pending").release(); });
  PyObject* const fill = once([] { return imported("gramme._hooks", "fill").release(); });
  const bool settled = !trace.policy.late_hooks.contains(trace.steps());
  Owned<> object = settled ? AsObject(trace)(hook) : Owned<>();
  if (!object && (trace.scope().graph().around() || trace.confinement.any())) return nullptr;
  PyObject* kept = object ? trace.keep(std::move(object)) : pending;
  graph::Node* node = trace.scope().emit_operator(
      method_of_tensor(), {trace.scope().argument(tensor), trace.scope().attribute("hook", kept)});
  Object* handle = handle_in_graph(trace, trace.scope().graph().around() ? nullptr : node);
  if (kept == pending) trace.call_in_replay(fill, {handle, hook});
  return handle;
}

/// x.register_hook(hook)
Value* register_hook(Trace& trace, const Args& args) {
  PyObject* const op = of_torch::object(of_torch::RegisterHookOp);
  Tensor* tensor = made_in_graph(trace, args, 2);
  if (!tensor) return before->register_hook(trace, args);
  protocol::refuse_subclass(tensor, "Tensor.register_hook");
  if (!trace.contract.differentiates) {
    Value* handle = register_as_it_is(trace, tensor, args[1]);
    return handle ? handle : before->register_hook(trace, args);
  }
  // The tensor that the operator returns needs gradients only with grad mode on.
  if (trace.policy.late_hooks.contains(trace.steps()) || !aten::grad_enabled())
    return before->register_hook(trace, args);
  if (!trace.scope().graph().around() && !trace.confinement.any() && compiles_backward(trace))
    return register_by_state(trace, tensor, args[1]);
  graph::Graph* body = body_or_late(trace, tensor, trace.see(args[1]));
  watch_what_it_takes(trace, body);
  std::vector<Argument> arguments = {trace.scope().argument(tensor), trace.scope().body(body)};
  for (const Argument& argument : lifted(*body)) arguments.push_back(argument);
  graph::Node* node = trace.scope().emit_operator(op, arguments);
  node->record = tensor->record;
  tensor->node = node;
  trace.scope().writes().set_late(tensor, effects::Late::Fixed);
  trace.scope().hook_inside(tensor);
  return handle_in_graph(trace);
}

/// x.retain_grad()
Value* retain_grad(Trace& trace, const Args& args) {
  PyObject* const type = of_torch::object(of_torch::TensorBase);
  Tensor* tensor = trace.contract.differentiates ? nullptr : made_in_graph(trace, args, 1);
  if (!tensor || tensor->record->is_leaf || tensor->retains_grad) return before->retain_grad(trace, args);
  protocol::refuse_subclass(tensor, "Tensor.retain_grad");
  static PyObject* const name = intern("retain_grad");
  PyObject* const descriptor = PyDict_GetItemWithError(type_dict(type), name);
  trace.scope().emit_operator(descriptor, {trace.scope().argument(tensor)});
  tensor->retains_grad = true;
  return trace.none();
}

/// handle.remove()
Value* remove_handle(Trace& trace, const Args& args) {
  PyObject* const method = of_torch::object(of_torch::RemovableHandleRemove);
  auto* handle = args.positional ? trace.see_as<Object>(args[0]) : nullptr;
  if (!handle || !is_in_graph(handle)) return before->remove(trace, args);
  if (!trace.scope().state<trace::MadeByGraph>().nodes.contains(handle))
    cannot(Reason::BodyUnsupported, "the removal of a hook that the graph registers");
  if (args.positional != 1 || args.keywords) cannot(Reason::ArgumentKind, "RemovableHandle.remove");
  trace.call_in_replay(method, {handle});
  return trace.none();
}

protocol::Modelled replace(Owned<> method, protocol::Model model) {
  const protocol::Modelled known = protocol::find_model(method.get());
  if (!known) GRAMME_BUG("no model of a function of hooks");
  protocol::add_model(method.get(), model);
  return known;
}

}  // namespace

void register_hooks() {
  before.fill().register_hook =
      replace(take(PyObject_GetAttrString(imported("torch", "Tensor").get(), "register_hook")), &register_hook);
  before.fill().retain_grad = replace(share(of_torch::object(of_torch::TensorBaseRetainGrad)), &retain_grad);
  before.fill().remove = replace(share(of_torch::object(of_torch::RemovableHandleRemove)), &remove_handle);
  protocol::add_model(class_of_hooks(), &make_hooks_of_module);
  protocol::add_model("torch.utils.hooks", "BackwardHook.setup_input_hook", &set_up_inputs);
  protocol::add_model("torch.utils.hooks", "BackwardHook.setup_output_hook", &set_up_outputs);
}

}  // namespace gramme::hop
