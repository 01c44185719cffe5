// Hooks on tensors that the graph makes: registered in the graph, at their place.
//
// A backend that runs the graph as it is gets the program's own function, which autograd calls as ever. One that
// differentiates the graph gets what the function does as a body: for functions that look at nothing but the gradient.
#include <algorithm>
#include <string_view>

#include "base/imported.h"
#include "base/once.h"
#include "base/type_dict.h"
#include "cpython/objects.h"
#include "hop/body.h"
#include "hop/operators.h"
#include "protocol/tensors.h"
#include "trace/read_later.h"

namespace gramme::hop {

using namespace value;
using meta::Argument;

namespace {

/// The models that they were before, for all other tensors.
struct Before {
  protocol::Modelled register_hook, retain_grad, remove;
};
Before before;

Tensor* made_in_graph(Trace& trace, const Args& args, size_t count) {
  auto* tensor = args.positional == count && !args.keywords ? trace.see_as<Tensor>(args[0]) : nullptr;
  const bool made = tensor && !tensor->existing() && tensor->node && tensor->late != Tensor::Closed &&
                    trace.scope().levels().empty() && trace.scope().requires_grad(tensor);
  return made ? tensor : nullptr;
}

/// What the graph returns for a hook nobody has; whoever asks it for more ends the segment.
Object* handle_in_graph(Trace& trace) {
  static PyObject* const id = intern("id");
  PyObject* const type = once([] { return imported("torch.utils.hooks", "RemovableHandle").release(); });
  auto* handle = trace.make<Object>();
  handle->type = reinterpret_cast<PyTypeObject*>(type);
  handle->attributes.push_back({id, trace.make<Super>()});  // cannot be rebuilt
  return handle;
}

bool is_in_graph(const Object* handle) {
  return !handle->existing() && handle->attributes.size() == 1 &&
         handle->attributes.begin()->value->kind == Kind::Super;
}

/// A hook as an object: the program's own, or one that does the same. Null where it is made of what the capture makes,
/// or of what is another object at each call.
class AsObject {
 public:
  explicit AsObject(Trace& trace) : trace_(trace) {}

  Owned<> operator()(Value* value) {
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

 private:
  using Capture = trace::Capture;

  Owned<> held(Value* value) {
    if (value->kind == Kind::Tensor || value->kind == Kind::Number || !value->object) return {};
    const auto before = trace_.policy.held.find(value->source->path);
    if (before != trace_.policy.held.end() && before->second.address != value->object) return {};
    trace_.guard({value->source, guards::Kind::Identity, share(value->object)});
    return share(value->object);
  }

  Owned<> bound(Method* method) {
    Owned<> function = (*this)(method->function), self = function ? (*this)(method->self) : Owned<>();
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
    Owned<> function = (*this)(partial->function), args = function ? items(partial->args) : Owned<>();
    if (!args || !partial->attributes.empty()) return {};
    Owned<> keywords = take(PyDict_New()), given = take(PyTuple_Pack(1, function.get()));
    for (const Attribute& keyword : partial->keywords) {
      Owned<> value = (*this)(keyword.value);
      if (!value) return {};
      check(PyDict_SetItem(keywords.get(), keyword.name, value.get()));
    }
    Owned<> all = take(PySequence_Concat(given.get(), args.get()));
    return take(PyObject_Call(type, all.get(), keywords.get()));
  }

  /// One made in the capture must hold to the end what it holds now, and nobody else may get it.
  Owned<> cell_of(Cell* cell) {
    if (cell->existing()) return held(cell);
    Owned<> content = cell->content ? (*this)(cell->content) : Owned<>();
    if (!content) return {};
    trace_.scope().state<trace::ReadLater>().keep_cell(trace_, cell);
    return take(PyCell_New(content.get()));
  }

  Owned<> items(const std::vector<Value*>& values) {
    Owned<> result = take(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
    for (size_t i = 0; i < values.size(); ++i) {
      Owned<> item = (*this)(values[i]);
      if (!item) return {};
      PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i), item.release());
    }
    return result;
  }

  Trace& trace_;
};

/// Does the code look at nothing but its argument and PyTorch's functions? Not where the answer may be another one for
/// the gradient than for the tensor.
bool looks_at_gradient_only(const Function* function) {
  static constexpr std::string_view kNames[] = {
      "torch", "nn",  "functional", "F",   "clamp", "mul",  "sum",     "norm",      "nan_to_num", "clone", "sign",
      "abs",   "max", "min",        "sin", "cos",   "tanh", "sigmoid", "relu",      "exp",        "sqrt",  "mean",
      "where", "neg", "zeros_like", "add", "sub",   "div",  "shape",   "ones_like", "detach",     "pow"};
  PyCodeObject* code = function->code;
  PyObject* names = code->co_names;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
    const char* text = PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, i));
    if (!text || std::find(std::begin(kNames), std::end(kNames), text) == std::end(kNames)) return false;
  }
  return function->closure.empty() && !function->defaults && !function->kwdefaults && code->co_argcount == 1;
}

graph::Graph* hook_body(Trace& trace, Tensor* tensor, Value* hook) {
  auto* function = trace.see_as<Function>(hook);
  if (function) trace.describe(function);
  if (!function || !looks_at_gradient_only(function)) return nullptr;
  Body body(trace, "hook_body", Effects::Forbidden);
  body.runs_later();
  PyObject* names = trace.keep(take(PyCode_GetVarnames(function->code)));
  Value* gradient = body.input(tensor->record, PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, 0)));
  Value* result = trace.see(body.call(function, {&gradient, 1, nullptr, 0}));
  auto* replaced = as<Tensor>(result);
  if (!replaced && trace.constant_of(result) != Py_None) cannot(Reason::BodyUnsupported, "a hook's result");
  if (replaced &&
      (replaced->record->sizes != tensor->record->sizes || replaced->record->dtype != tensor->record->dtype))
    cannot(Reason::BodyUnsupported, "a hook's result");
  return body.returns(replaced ? trace.scope().argument(replaced) : constant(Py_None));
}

/// x.register_hook(hook)
Value* register_hook(Trace& trace, const Args& args) {
  PyObject* const method =
      once([] { return take(PyObject_GetAttrString(imported("torch", "Tensor").get(), "register_hook")).release(); });
  PyObject* const op =
      once([] { return imported("torch._higher_order_ops.register_hook", "register_hook_op").release(); });
  Tensor* tensor = made_in_graph(trace, args, 2);
  if (!tensor) return before.register_hook(trace, args);
  protocol::refuse_torch_function(trace, tensor, "Tensor.register_hook");
  if (trace.policy.locates) {
    Owned<> hook = AsObject(trace)(args[1]);
    if (!hook || !PyCallable_Check(hook.get())) return before.register_hook(trace, args);
    PyObject* kept = trace.keep(std::move(hook));
    trace.scope().emit_operator(method, {trace.scope().argument(tensor), trace.scope().attribute("hook", kept)});
    return handle_in_graph(trace);
  }
  const bool late = trace.policy.late_hooks.contains(trace.steps());
  graph::Graph* body = late ? nullptr : hook_body(trace, tensor, args[1]);
  if (!body) return before.register_hook(trace, args);
  std::vector<Argument> arguments = {trace.scope().argument(tensor), trace.scope().body(body)};
  for (const Argument& argument : lifted(*body)) arguments.push_back(argument);
  graph::Node* node = trace.scope().emit_operator(op, arguments);
  node->record = tensor->record;
  tensor->node = node;
  trace.scope().hold(tensor);
  trace.scope().hook_inside(tensor);
  return handle_in_graph(trace);
}

/// x.retain_grad()
Value* retain_grad(Trace& trace, const Args& args) {
  PyObject* const type = once([] { return imported("torch._C", "TensorBase").release(); });
  Tensor* tensor = trace.policy.locates ? made_in_graph(trace, args, 1) : nullptr;
  if (!tensor || tensor->record->is_leaf || tensor->retains_grad) return before.retain_grad(trace, args);
  protocol::refuse_torch_function(trace, tensor, "Tensor.retain_grad");
  static PyObject* const name = intern("retain_grad");
  PyObject* const descriptor = PyDict_GetItemWithError(type_dict(type), name);
  trace.scope().emit_operator(descriptor, {trace.scope().argument(tensor)});
  tensor->retains_grad = true;
  return trace.none();
}

/// handle.remove()
Value* remove_handle(Trace& trace, const Args& args) {
  auto* handle = args.positional ? trace.see_as<Object>(args[0]) : nullptr;
  if (handle && is_in_graph(handle)) cannot(Reason::BodyUnsupported, "the removal of a hook that the graph registers");
  return before.remove(trace, args);
}

protocol::Modelled replace(const char* module, const char* type, const char* name, protocol::Model model) {
  Owned<> method = take(PyObject_GetAttrString(imported(module, type).get(), name));
  const protocol::Modelled known = protocol::find_model(method.get());
  if (!known) GRAMME_BUG(std::string("no model of ") + name);
  protocol::add_model(method.get(), model);
  return known;
}

}  // namespace

void register_hooks() {
  before.register_hook = replace("torch", "Tensor", "register_hook", &register_hook);
  before.retain_grad = replace("torch._C", "TensorBase", "retain_grad", &retain_grad);
  before.remove = replace("torch.utils.hooks", "RemovableHandle", "remove", &remove_handle);
}

}  // namespace gramme::hop
