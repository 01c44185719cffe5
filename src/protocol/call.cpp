// Calls of any callable: chooses between models, inlining, graph nodes, folding, classes and hooks.
#include <algorithm>
#include <array>

#include "aten/classes.h"
#include "base/imported.h"
#include "base/once.h"
#include "base/process.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "meta/asked.h"
#include "protocol/attributes.h"
#include "protocol/call_rules.h"
#include "protocol/names.h"
#include "protocol/numpy.h"
#include "protocol/protocol.h"
#include "protocol/tensors.h"
#include "source/constant.h"
#include "source/leaf_types.h"
#include "trace/getters.h"
#include "value/traits.h"

namespace gramme::protocol {

using namespace value;

namespace {

struct Hooks {
  ModeDispatch mode_dispatch = nullptr;
  PyTypeObject* operator_type = nullptr;
  OperatorCall operator_call = nullptr;
};
AtLoad<Hooks> hooks;

std::string callable_name(PyObject* callable) {
  Owned<> name = Owned<>::steal(PyObject_GetAttr(callable, names::k_qualname));
  if (!name || !PyUnicode_Check(name.get())) {
    PyErr_Clear();
    return Py_TYPE(callable)->tp_name;
  }
  Owned<> module = Owned<>::steal(PyObject_GetAttr(callable, names::k_module));
  if (!module) PyErr_Clear();
  std::string prefix = module && PyUnicode_Check(module.get()) ? utf8_of(module.get()) + "." : "";
  return prefix + utf8_of(name.get());
}

/// The arguments with one more in front. Lives for one call.
class Prepended {
 public:
  Prepended(Value* first, const Args& args) {
    size_t n = args.positional + args.keywords;
    Value** to = small_.data();
    if (n + 1 > small_.size()) {
      large_.resize(n + 1);
      to = large_.data();
    }
    to[0] = first;
    for (size_t i = 0; i < n; ++i) to[i + 1] = args.values[i];
    args_ = {to, args.positional + 1, args.names, args.keywords};
  }
  const Args& get() const { return args_; }

 private:
  std::array<Value*, 8> small_;
  std::vector<Value*> large_;
  Args args_;
};

/// A real argument for a function declared constant: a constant, or an existing object that is unchanged.
Owned<> as_it_began(Trace& trace, Value* value) {
  if (Owned<> known = trace.concrete(value)) return known;
  const Value* seen = trace.see(value);
  const bool unchanged = trace.effects().empty() && trace.scope().writes().empty();
  return seen->existing() && seen->object && unchanged ? share(seen->object) : Owned<>();
}

/// Folds a call in a capture that is not run, as PyTorch's export does: with any objects, and perhaps tensors as
/// result.
Value* fold_once(Trace& trace, PyObject* function, const Args& args) {
  Owned<> positional = take(PyTuple_New(static_cast<Py_ssize_t>(args.positional))), keywords = take(PyDict_New());
  for (size_t i = 0; i < args.positional + args.keywords; ++i) {
    Owned<> object = as_it_began(trace, args.values[i]);
    if (!object) return nullptr;
    if (i < args.positional)
      PyTuple_SET_ITEM(positional.get(), static_cast<Py_ssize_t>(i), object.release());
    else
      check(PyDict_SetItem(keywords.get(), args.names[i - args.positional], object.get()));
  }
  PyObject* result = PyObject_Call(function, positional.get(), keywords.get());
  if (!result) raise_current(trace);
  Owned<> answer = Owned<>::steal(result);
  return aten::is_tensor(answer.get()) ? trace.pinned(answer.get()) : trace.adopt(std::move(answer));
}

/// Calls a function declared constant (torch.compiler.assume_constant_result) in the capture. If captured calls run,
/// its result must be a constant, because later calls must find it again.
Value* fold_declared(Trace& trace, PyObject* function, const Args& args) {
  ++meta::asked->program;
  const bool once = !trace.contract.runs;
  Value* result = once ? fold_once(trace, function, args) : fold(trace, function, args);
  if (once && result && result->kind == Kind::Tensor) return result;
  Owned<> answer = result ? trace.concrete(result) : Owned<>();
  if (!answer || !(once || source::is_constant(answer.get()))) cannot(Reason::CallSkipped, callable_name(function));
  return result;
}

/// Ends the segment at a model or C type under torch function modes, which it would bypass.
void refuse_unseen(Trace& trace, PyObject* callable) {
  static PyObject* const torch = intern("torch");
  if (!trace.scope().modes().in_function_mode()) return;
  Owned<> module = Owned<>::steal(PyObject_GetAttr(callable, names::k_module));
  if (!module) PyErr_Clear();
  bool of_torch =
      module && PyUnicode_Check(module.get()) && PyUnicode_Tailmatch(module.get(), torch, 0, PY_SSIZE_T_MAX, -1) == 1;
  if (of_torch) cannot(Reason::CallUnknown, callable_name(callable));
}

void refuse_unseen_type(Trace& trace, PyObject* type) {
  if (!(reinterpret_cast<PyTypeObject*>(type)->tp_flags & Py_TPFLAGS_HEAPTYPE)) refuse_unseen(trace, type);
}

/// Scope without the program's torch function modes.
class WithoutModes {
 public:
  explicit WithoutModes(Trace& trace) : trace_(trace) {
    while (trace.scope().modes().in_function_mode()) left_.push_back(trace.scope().modes().pop_function_mode());
  }
  ~WithoutModes() {
    for (; !left_.empty(); left_.pop_back()) trace_.scope().modes().push_function_mode(left_.back());
  }
  WithoutModes(const WithoutModes&) = delete;

 private:
  Trace& trace_;
  std::vector<trace::FunctionMode> left_;
};

/// Scope in which a model replaces a Python function.
class Frameless {
 public:
  explicit Frameless(Trace& trace) : trace_(trace) { ++trace.progress.frameless; }
  ~Frameless() { --trace_.progress.frameless; }
  Frameless(const Frameless&) = delete;

 private:
  Trace& trace_;
};

/// Traces the program's substitute for a function. No segment ends in it, because the frame would continue in the
/// original.
Value* call_substitute(Trace& trace, PyObject* callable, const Args& args) {
  Owned<> substitute = take(PyObject_CallOneArg(imported("gramme._policy", "substitute_of").get(), callable));
  trace.enter_opaque();
  Frameless frameless(trace);
  return call(trace, trace.pinned(substitute.get()), args);
}

constexpr int kResumed = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;

bool is_classed(PyObject* object) { return aten::is_tensor(object) && !aten::is_exact_tensor_type(Py_TYPE(object)); }

constexpr size_t kLooked = 16;  // items looked at in a list or tuple

bool brings_class(const std::vector<Value*>& items) {
  return std::any_of(items.begin(), items.begin() + static_cast<ptrdiff_t>(std::min(kLooked, items.size())),
                     [](Value* item) { return item->object && is_classed(item->object); });
}

/// True for a tensor of a subclass, and for a list or tuple with one near its start; values need not be seen yet.
bool brings_class(Value* value) {
  if (auto* tuple = as<Tuple>(value)) return brings_class(tuple->items);
  if (auto* list = as<List>(value)) return !list->unread && brings_class(list->own_items);
  PyObject* object = value->object;
  if (!object || value->kind != Kind::Lazy) return object && is_classed(object);
  if (!PyList_CheckExact(object) && !PyTuple_CheckExact(object)) return is_classed(object);
  const size_t count = std::min(kLooked, static_cast<size_t>(PySequence_Fast_GET_SIZE(object)));
  return std::any_of(PySequence_Fast_ITEMS(object), PySequence_Fast_ITEMS(object) + count, is_classed);
}

/// True if the class of an argument may handle the call (__torch_function__).
bool may_ask_classes(Trace& trace, const Args& args) {
  if (trace.scope().has_classes()) return true;
  for (size_t i = 0; i < args.positional + args.keywords; ++i)
    if (brings_class(args.values[i])) return true;
  return false;
}

/// The result of __torch_function__ for a Python function of torch that has a model or is a node. Null if no class is
/// asked.
Value* asked_first(Trace& trace, PyObject* function, const Args& args) {
  if (!trace.scope().modes().handlers_on() || trace.scope().modes().in_function_mode() || !may_ask_classes(trace, args))
    return nullptr;
  if (!find_model(function) && treatment(function) != Treatment::InGraph) return nullptr;
  trace.enter_opaque();
  return hooks->mode_dispatch(trace, function, args);
}

Value* call_function(Trace& trace, Function* function, const Args& args) {
  if (function->object) {
    if (Value* result = asked_first(trace, function->object, args)) return result;
    if (auto model = find_model(function->object)) {
      Frameless frameless(trace);
      if (is_unseen(function->object)) {
        WithoutModes without(trace);
        return model(trace, args);
      }
      refuse_unseen(trace, function->object);
      return model(trace, args);
    }
    if (FunctionModel model = find_function_model(cpython::code_of(cpython::as_function(function->object)))) {
      trace.enter_opaque();
      Frameless frameless(trace);
      return model(trace, function, args);
    }
    switch (treatment(function->object)) {
      case Treatment::InGraph:
        guard_lookups(trace, function);
        return trace.emit(function->object, args);
      case Treatment::Fold:
        return fold_declared(trace, function->object, args);
      case Treatment::Substituted:
        return call_substitute(trace, function->object, args);
      case Treatment::RunForReal:
        if (Value* result = array_call(trace, function->object, args)) return result;
        cannot(Reason::CallSkipped, callable_name(function->object));
      case Treatment::Inline:
        break;
    }
  }
  if (trace.progress.is_deepest()) cannot(Reason::TooDeep);
  if (function->code && !(function->code->co_flags & kResumed)) trace.scope().shown().look_for_constant(function);
  const CallRule rule =
      function->object ? find_call_rule(cpython::code_of(cpython::as_function(function->object))) : nullptr;
  if (rule) {
    std::vector<Value*> values(args.values, args.values + args.positional + args.keywords);
    rule(trace, function, args, values);
    return trace.inliner->call(function, Args{values.data(), args.positional, args.names, args.keywords});
  }
  return trace.inliner->call(function, args);
}

bool is_new(PyObject* callable) {
  return PyCFunction_Check(callable) && PyCFunction_GET_SELF(callable) &&
         PyType_Check(PyCFunction_GET_SELF(callable)) &&
         strcmp(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name, "__new__") == 0;
}

/// T.__new__(cls, …) of a C type, for classes without a nearer __new__.
Value* call_new(Trace& trace, PyObject* callable, const Args& args) {
  auto* owner = reinterpret_cast<PyTypeObject*>(PyCFunction_GET_SELF(callable));
  auto* cls = args.positional ? trace.see_as<Class>(args[0]) : nullptr;
  PyTypeObject* base = cls ? cls->type() : nullptr;
  const newfunc by_python = once([] { return imported_type("abc", "ABCMeta"); })->tp_new;
  while (base && base->tp_new == by_python) base = base->tp_base;
  const bool safe = base && PyType_IsSubtype(cls->type(), owner) && base->tp_new == owner->tp_new;
  const bool excess = args.positional + args.keywords > 1 && owner == &PyBaseObject_Type;
  if (!safe || (excess && (cls->type()->tp_new != owner->tp_new || cls->type()->tp_init == owner->tp_init)))
    cannot(Reason::ArgumentKind, std::string(owner->tp_name) + ".__new__() with what it refuses");
  return allocate(trace, cls, {args.values + 1, args.positional - 1, args.names, args.keywords});
}

/// True if looking up the C method's name on the tensor finds it. It may be hidden by a subclass, by an assignment to
/// the class or by an attribute. `bound`: it was found that way already, or through super().
bool is_found_by_name(Trace& trace, PyObject* callable, Tensor* tensor, bool bound) {
  PyObject* name = PyDescr_NAME(callable);
  PyTypeObject* type = tensor->record->type;
  PyObject* found = bound ? cpython::type_lookup(type, name) : trace.type_lookup(type, name);
  return found == callable && !is_hidden(trace, tensor, name);
}

/// Calls a getter such as torch.Tensor.shape.__get__; null for other callables.
Value* call_getter(Trace& trace, PyObject* callable, const Args& args) {
  if (args.positional != 1 || args.keywords || Py_TYPE(callable)->tp_call == PyCFunction_Type.tp_call) return nullptr;
  PyObject* descriptor = trace::attribute_of_getter(callable);
  auto* tensor = descriptor ? trace.see_as<Tensor>(args[0]) : nullptr;
  return tensor ? get_attribute(trace, tensor, trace.keep(share(PyDescr_NAME(descriptor)))) : nullptr;
}

Value* call_builtin(Trace& trace, PyObject* callable, const Args& args, bool bound = false) {
  trace.enter_opaque();
  if (Value* result = call_getter(trace, callable, args)) return result;
  if (trace.scope().modes().in_function_mode() || may_ask_classes(trace, args))
    if (Value* result = hooks->mode_dispatch(trace, callable, args)) return result;
  bool descr = Py_IS_TYPE(callable, &PyMethodDescr_Type) || Py_IS_TYPE(callable, &PyWrapperDescr_Type);
  auto* tensor = descr && args.positional ? trace.see_as<Tensor>(args[0]) : nullptr;
  const bool by_name = tensor && is_found_by_name(trace, callable, tensor, bound);
  if (tensor && !by_name && aten::is_exact_tensor_type(tensor->record->type) &&
      PyType_IsSubtype(PyDescr_TYPE(callable), of_torch::type(of_torch::TensorBase)))
    cannot(Reason::CallUnknown, callable_name(callable) + ", which the class or the instance hides");
  if (auto model = find_model(callable)) return model(trace, args);
  if (is_new(callable)) return call_new(trace, callable, args);
  if (tensor && !by_name) cannot(Reason::CallUnknown, callable_name(callable) + ", which the class hides");
  if (tensor) return trace.emit_method(PyDescr_NAME(callable), args);
  if (is_pure(callable))
    if (Value* result = fold(trace, callable, args)) return result;
  if (Value* result = array_call(trace, callable, args)) return result;
  switch (treatment(callable)) {
    case Treatment::InGraph:
      return trace.emit(callable, args);
    case Treatment::Substituted:
      return call_substitute(trace, callable, args);
    case Treatment::Fold:
    case Treatment::RunForReal:
      cannot(Reason::CallSkipped, callable_name(callable));
    case Treatment::Inline:
      cannot(Reason::CallUnknown, callable_name(callable));
  }
  return nullptr;
}

Value* call_partial(Trace& trace, Partial* partial, const Args& args) {
  std::vector<Value*> positional = partial->args;
  positional.insert(positional.end(), args.values, args.values + args.positional);
  Attributes keywords = partial_keywords(trace, partial);
  for (size_t i = 0; i < args.keywords; ++i) {
    Value* value = args[args.positional + i];
    bool replaced = false;
    for (Attribute& keyword : keywords)
      if (PyUnicode_Compare(keyword.name, args.names[i]) == 0) keyword.value = value, replaced = true;
    if (!replaced) keywords.push_back({args.names[i], value});
  }
  return call_with(trace, partial->function, positional, keywords);
}

bool is_module(PyObject* object) {
  auto* const type = once([] {
    Owned<> module = Owned<>::steal(import_module("torch.nn"));
    PyObject* found = module ? PyObject_GetAttrString(module.get(), "Module") : nullptr;
    if (!found) PyErr_Clear();
    return reinterpret_cast<PyTypeObject*>(found);
  });
  return type && PyObject_TypeCheck(object, type);
}

/// Scope in which nodes are attributed to a module of the program.
class ModuleScope {
 public:
  ModuleScope(Trace& trace, PyObject* object, const source::Source* path)
      : trace_(trace), entered_(object && path && is_module(object)) {
    if (entered_) before_ = trace.scope().graph().enter(object, path);
  }
  ~ModuleScope() {
    if (entered_) trace_.scope().graph().leave(before_);
  }
  ModuleScope(const ModuleScope&) = delete;

 private:
  Trace& trace_;
  bool entered_;
  const graph::ModuleCall* before_ = nullptr;
};

/// True if torch.fx can print the callable by its name.
bool has_name(PyObject* callable) {
  auto name = Owned<>::steal(PyObject_GetAttr(callable, names::k_name));
  PyErr_Clear();
  return name && PyUnicode_Check(name.get());
}

/// `path` is the source by which the program reached the object.
Value* call_object(Trace& trace, Object* object, const Args& args, const source::Source* path) {
  if (object->object) {
    if (auto model = find_model(object->object)) return model(trace, args);
    if (treatment(object->object) == Treatment::InGraph) {
      if (!has_name(object->object)) cannot(Reason::CallSkipped, callable_name(object->object));
      return trace.emit(object->object, args);
    }
    if (PyInstanceMethod_Check(object->object)) {  // pybind11's methods are instancemethods around a function
      if (object->source) trace.facts.add({object->source, guards::Kind::Identity, share(object->object)});
      return call(trace, trace.pinned(PyInstanceMethod_GET_FUNCTION(object->object)), args);
    }
  }
  if (hooks->operator_type && PyType_IsSubtype(object->type, hooks->operator_type)) {
    Frameless frameless(trace);
    return hooks->operator_call(trace, object, args);
  }
  Value* method = special_method(trace, object, names::k_call);
  if (!method) raise(trace, PyExc_TypeError, std::string("'") + object->type->tp_name + "' object is not callable");
  auto* builtin = as<BuiltinMethod>(method);
  if (builtin && !find_model(builtin->object))
    cannot(Reason::CallUnknown,
           std::string("an object of type ") + Py_TYPE(object->object ? object->object : builtin->object)->tp_name);
  ModuleScope scope(trace, object->object, path);
  return call(trace, method, args);
}

// ---- one overload for each kind whose row in kinds.def says CALLABLE

using Path = const source::Source*;

Value* called(Trace& trace, Function* function, const Args& args, Path) { return call_function(trace, function, args); }
Value* called(Trace& trace, Builtin* builtin, const Args& args, Path) {
  return call_builtin(trace, builtin->object, args);
}
Value* called(Trace& trace, Partial* partial, const Args& args, Path) { return call_partial(trace, partial, args); }
Value* called(Trace& trace, Object* object, const Args& args, Path path) {
  return call_object(trace, object, args, path);
}

Value* called(Trace& trace, Method* method, const Args& args, Path) {
  Prepended all(method->self, args);
  return call(trace, method->function, all.get());
}

Value* called(Trace& trace, BuiltinMethod* method, const Args& args, Path) {
  Prepended all(method->self, args);
  return call_builtin(trace, method->object, all.get(), true);
}

Value* called(Trace& trace, Class* cls, const Args& args, Path) {
  refuse_unseen_type(trace, cls->object);
  if (auto model = find_model(cls->object)) return model(trace, args);
  if (cls->existing() && source::is_leaf_type(cls->type()))
    if (Value* made = fold(trace, cls->object, args)) return made;
  if (Value* result = array_call(trace, cls->object, args)) return result;
  if (treatment(cls->object) == Treatment::InGraph) return trace.emit(cls->object, args);
  for (size_t i = 0; i < args.positional + args.keywords; ++i)
    if (!trace.scope().shown().look_for_constant(args[i])) break;
  return construct(trace, cls, args);
}

}  // namespace

void set_mode_dispatch(ModeDispatch dispatch) { hooks.fill().mode_dispatch = dispatch; }
void set_operator_call(PyTypeObject* type, OperatorCall call) {
  hooks.fill().operator_type = type;
  hooks.fill().operator_call = call;
}

Value* call(Trace& trace, Value* callee, const Args& args) {
  trace.need_room();
  const source::Source* path = callee->source;
  callee = trace.see(callee);
  if (!has(callee->kind, CALLABLE)) {
    if (Value* method = type_of(callee)->tp_call ? special_method(trace, callee, names::k_call) : nullptr)
      return call(trace, method, args);
    raise(trace, PyExc_TypeError, std::string("'") + type_of(callee)->tp_name + "' object is not callable");
  }
  return as_kind<CALLABLE>(callee, [&](auto* seen) { return called(trace, seen, args, path); });
}

Value* call(Trace& trace, Value* callee, std::initializer_list<Value*> args) {
  return call(trace, callee, Args{args.begin(), args.size(), nullptr, 0});
}

Value* call_method(Trace& trace, Value* object, PyObject* name, std::initializer_list<Value*> args) {
  return call(trace, get_attribute(trace, object, name), args);
}

Value* call_with(Trace& trace, Value* callee, const std::vector<Value*>& positional, const Attributes& keywords) {
  std::vector<Value*> values = positional;
  std::vector<PyObject*> names;
  for (const Attribute& keyword : keywords) {
    names.push_back(keyword.name);
    values.push_back(keyword.value);
  }
  return call(trace, callee, Args{values.data(), positional.size(), names.data(), names.size()});
}

}  // namespace gramme::protocol
