// Calls that go to a tensor class's __torch_function__, which is traced like any Python function.
//
// Functions differ in what they pass to handlers and in which operands they look at. So the real function is called on
// stand-ins whose class reports its question (gramme/_overrides.py). No segment ends in a handler.
#include "builtins/torch_overrides.h"

#include <algorithm>
#include <optional>

#include "aten/classes.h"
#include "base/imported.h"
#include "base/once.h"
#include "cpython/objects.h"
#include "torch/names.h"

namespace gramme::builtins {

using namespace value;

bool is_ignored(PyObject* callable) {
  PyObject* const ignored =
      once([] { return take(PyObject_CallNoArgs(of_torch::object(of_torch::GetIgnoredFunctions))).release(); });
  return check(PySet_Contains(ignored, callable));
}

namespace {

PyObject* const kHandler = intern("__torch_function__");

// ---- who is asked

/// The first tensor of each class that is asked.
class Askers {
 public:
  explicit Askers(Trace& trace) : trace_(trace) {}
  void look(Value* value) {
    value = trace_.see(value);
    if (auto* tensor = as<Tensor>(value)) {
      if (protocol::is_asked(trace_, tensor) && place(tensor) < 0) classes_.push_back(tensor->record->type);
    } else if (auto* tuple = as<Tuple>(value)) {
      for (Value* item : tuple->items) look(item);
    } else if (auto* list = as<List>(value)) {
      for (Value* item : protocol::items_of(trace_, list)) look(item);
    }
  }
  bool empty() const { return classes_.empty(); }
  PyTypeObject* at(size_t place) const { return classes_.at(place); }
  /// The index of the tensor's class; -1 if it is not asked.
  int place(const Tensor* tensor) const {
    auto found = std::ranges::find(classes_, tensor->record->type);
    return found == classes_.end() ? -1 : static_cast<int>(found - classes_.begin());
  }

 private:
  Trace& trace_;
  std::vector<PyTypeObject*> classes_;
};

/// The order in which PyTorch asks: subclasses before their bases, otherwise left to right.
std::vector<PyTypeObject*> in_order(const std::vector<PyTypeObject*>& classes) {
  std::vector<PyTypeObject*> result;
  for (PyTypeObject* cls : classes) {
    if (std::ranges::find(result, cls) != result.end()) continue;
    auto before = std::ranges::find_if(result, [&](PyTypeObject* base) { return PyType_IsSubtype(cls, base); });
    result.insert(before, cls);
  }
  return result;
}

/// The function passed to handlers, and the classes asked.
struct Question {
  Value* function;
  std::vector<PyTypeObject*> classes;
};

/// Calls each class's handler(function, types, args[, kwargs]) until one does not return NotImplemented.
Value* ask(Trace& trace, const Question& question, Value* args, Value* keywords) {
  std::vector<Value*> types;
  for (PyTypeObject* cls : question.classes) types.push_back(protocol::class_value(trace, cls));
  std::vector<Value*> all{question.function, trace.tuple(types), args};
  if (keywords) all.push_back(keywords);
  for (PyTypeObject* cls : question.classes) {
    PyObject* raw = trace.type_lookup(cls, kHandler);
    if (!raw || !(Py_IS_TYPE(raw, &PyClassMethod_Type) || Py_IS_TYPE(raw, &PyStaticMethod_Type)))
      cannot(Reason::TensorSubclass, std::string(cls->tp_name) + ", whose __torch_function__ is no class method");
    Value* method = protocol::get_attribute(trace, protocol::class_value(trace, cls), kHandler);
    Value* result = trace.see(protocol::call(trace, method, Args{all.data(), all.size(), nullptr, 0}));
    if (result->kind != Kind::Constant || result->object != Py_NotImplemented) return result;
  }
  cannot(Reason::TensorSubclass, "a call that no class of its operands answers");
}

// ---- what PyTorch asks

/// A stand-in for an operand, of the same kind but without data.
Owned<> stand_in(Trace& trace, Value* value, const Askers& askers);

Owned<> sequence(Trace& trace, const std::vector<Value*>& items, const Askers& askers) {
  Owned<> result = take(PyList_New(0));
  for (Value* item : items) check(PyList_Append(result.get(), stand_in(trace, item, askers).get()));
  return result;
}

Owned<> stand_in(Trace& trace, Value* value, const Askers& askers) {
  value = trace.see(value);
  if (auto* tensor = as<Tensor>(value))
    return take(PyObject_CallFunction(imported("gramme._overrides", "tensor").get(), "inO", askers.place(tensor),
                                      static_cast<Py_ssize_t>(tensor->record->dim()),
                                      meta::dtype_object(*tensor->record)));
  if (auto* tuple = as<Tuple>(value)) {
    Owned<> items = take(PyList_AsTuple(sequence(trace, tuple->items, askers).get()));
    auto* type = reinterpret_cast<PyObject*>(tuple->type);
    return tuple->type == &PyTuple_Type ? items : take(PyObject_CallOneArg(type, items.get()));
  }
  if (auto* list = as<List>(value)) return sequence(trace, protocol::items_of(trace, list), askers);
  if (auto* slice = as<Slice>(value))
    return take(PySlice_New(stand_in(trace, slice->start, askers).get(), stand_in(trace, slice->stop, askers).get(),
                            stand_in(trace, slice->step, askers).get()));
  auto* object = as<Object>(value);
  if (object && trace.type_lookup(object->type, kHandler))
    cannot(Reason::CallUnknown, std::string(object->type->tp_name) + ", a class with __torch_function__");
  if (value->object) return share(value->object);
  cannot(Reason::TensorSubclass, std::string("a ") + kind_name(value->kind) + " beside a tensor of a subclass");
}

/// Nullopt if the function asks no class.
std::optional<Question> question_of(Trace& trace, PyObject* callable, const Args& args, const Askers& askers) {
  std::vector<Value*> values(args.values, args.values + args.positional);
  Owned<> positional = sequence(trace, values, askers), keywords = take(PyDict_New());
  for (size_t i = 0; i < args.keywords; ++i)
    check(PyDict_SetItem(keywords.get(), args.names[i], stand_in(trace, args[args.positional + i], askers).get()));
  Owned<> asked = Owned<>::steal(PyObject_CallFunctionObjArgs(imported("gramme._overrides", "question").get(), callable,
                                                              positional.get(), keywords.get(), nullptr));
  if (!asked) {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) throw PythonError();
    PyErr_Clear();
    cannot(Reason::OperatorFailed, "a call with a tensor of a subclass, which raises");
  }
  if (asked.get() == Py_None) return {};
  std::vector<PyTypeObject*> classes;
  PyObject* places = PyTuple_GET_ITEM(asked.get(), 1);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(places); ++i)
    classes.push_back(askers.at(PyLong_AsSize_t(PyTuple_GET_ITEM(places, i))));
  return Question{trace.pinned(trace.keep(share(PyTuple_GET_ITEM(asked.get(), 0)))), in_order(classes)};
}

/// True for Python functions that PyTorch lists as overridable; others may do anything before they ask.
bool is_listed(PyObject* function) {
  PyObject* const listed = once(
      [] { return take(PyObject_CallNoArgs(imported("torch.overrides", "get_testing_overrides").get())).release(); });
  return check(PyDict_Contains(listed, function));
}

bool may_ask(PyObject* callable) {
  if (PyFunction_Check(callable)) return is_listed(callable);
  if (!is_of_torch(callable) || is_of_functorch(callable) || is_ignored(callable)) return false;
  return Py_IS_TYPE(callable, &PyMethodDescr_Type) || Py_IS_TYPE(callable, &PyWrapperDescr_Type) ||
         protocol::treatment(callable) == protocol::Treatment::InGraph;
}

// ---- models

/// handle_torch_function(public_api, relevant_args, *args, **kwargs)
Value* handle(Trace& trace, const Args& args) {
  if (args.positional < 2) cannot(Reason::ArgumentKind, "handle_torch_function");
  std::vector<PyTypeObject*> classes;
  for (Value* relevant : protocol::items_of(trace, args[1])) {
    Value* seen = trace.see(relevant);
    auto* tensor = as<Tensor>(seen);
    if (tensor && protocol::is_asked(trace, tensor)) classes.push_back(tensor->record->type);
    auto* object = as<Object>(seen);
    if (object && trace.type_lookup(object->type, kHandler))
      cannot(Reason::CallUnknown, "a class with __torch_function__");
  }
  Dict* keywords = trace.dict();
  for (size_t i = 0; i < args.keywords; ++i)
    keywords->entries.set(trace.constant(args.names[i]), args[args.positional + i]);
  Value* rest = trace.tuple(std::vector<Value*>(args.values + 2, args.values + args.positional));
  return ask(trace, {args[0], in_order(classes)}, rest, keywords);
}

/// Calls function(*args, **kwargs) with __torch_function__ disabled.
Value* call_off(Trace& trace, Value* function, Value* args, Value* keywords) {
  Attributes named;
  auto* dict = keywords ? trace.see_as<Dict>(keywords) : nullptr;
  if (keywords && !dict && trace.see(keywords) != trace.none())
    cannot(Reason::ArgumentKind, "keywords of a __torch_function__");
  if (dict) {
    trace.load(dict);
    dict->entries.each([&](Table::Entry& entry) {
      PyObject* name = trace.constant_of(entry.key);
      if (!name || !PyUnicode_Check(name)) cannot(Reason::ArgumentKind, "keywords of a __torch_function__");
      named.push_back({name, entry.value});
    });
  }
  std::vector<Value*> positional = args ? protocol::items_of(trace, args) : std::vector<Value*>();
  const trace::HandlersOff off(trace.scope().modes());
  return trace.see(protocol::call_with(trace, function, positional, named));
}

/// torch._C._disabled_torch_function_impl(function, types, args, kwargs)
Value* without_classes(Trace& trace, const Args& args) {
  if (args.keywords || args.positional < 2) cannot(Reason::ArgumentKind, "a disabled __torch_function__");
  return call_off(trace, args[0], args.positional > 2 ? args[2] : nullptr, args.positional > 3 ? args[3] : nullptr);
}

bool is_instance(const Tensor* tensor, PyTypeObject* cls) { return PyType_IsSubtype(tensor->record->type, cls); }

Value* as_subclass_of(Trace& trace, Tensor* tensor, PyTypeObject* cls, bool view = true);

/// Converts a result as torch.Tensor's own handler does: tensors get the class, also in lists and tuples.
Value* converted(Trace& trace, Value* result, PyTypeObject* cls) {
  result = trace.see(result);
  if (auto* tensor = as<Tensor>(result)) return is_instance(tensor, cls) ? tensor : as_subclass_of(trace, tensor, cls);
  auto* tuple = as<Tuple>(result);
  auto* list = as<List>(result);
  if (!tuple && !list) return result;
  std::vector<Value*> items = protocol::items_of(trace, result);
  for (Value*& item : items) item = converted(trace, item, cls);
  if (list) return trace.list(std::move(items));
  Tuple* made = trace.tuple(std::move(items));
  if (tuple->type->tp_flags & Py_TPFLAGS_HEAPTYPE &&
      !PyObject_HasAttrString(reinterpret_cast<PyObject*>(tuple->type), "n_sequence_fields"))
    cannot(Reason::TensorSubclass, std::string("a ") + tuple->type->tp_name + " of tensors that get a class");
  made->type = tuple->type;
  return made;
}

/// True for functions whose results the default handler does not convert.
bool is_left(Value* function) {
  PyObject* const left = once([] {
    return take(PyObject_CallNoArgs(imported("torch.overrides", "get_default_nowrap_functions").get())).release();
  });
  if (!function->object) return false;
  int found = PySet_Contains(left, function->object);
  if (found < 0) PyErr_Clear();
  return found > 0;
}

/// torch.Tensor.__torch_function__(cls, func, types, args=(), kwargs=None)
Value* inherited(Trace& trace, const Args& args) {
  auto [type, function, types, positional, keywords] = bind(args, 3, {"cls", "func", "types", "args", "kwargs"});
  auto* cls = trace.see_as<Class>(type);
  if (!cls || !cls->existing()) cannot(Reason::ArgumentKind, "Tensor.__torch_function__");
  for (Value* each : protocol::items_of(trace, types)) {
    auto* other = trace.see_as<Class>(each);
    if (!other) cannot(Reason::ArgumentKind, "Tensor.__torch_function__");
    if (!trace.is_subtype(cls->type(), other->type())) return trace.constant(Py_NotImplemented);
  }
  Value* result = call_off(trace, function, positional, keywords);
  const bool plain = cls->type() == once([] { return imported_type("torch", "Tensor"); });
  return plain || is_left(trace.see(function)) ? result : converted(trace, result, cls->type());
}

// ---- tensors of other classes that share memory

Value* as_subclass_of(Trace& trace, Tensor* tensor, PyTypeObject* cls, bool view) {
  static PyObject *const dispatch = intern("__torch_dispatch__"), *const finalizer = intern("__del__");
  auto* const plain = once([] { return imported_type("torch", "Tensor"); });
  if (!PyType_IsSubtype(cls, plain) || trace.is_made(cls) || (cls != plain && aten::is_exact_tensor_type(cls)))
    cannot(Reason::TensorSubclass, std::string("a tensor that becomes a ") + cls->tp_name);
  if (trace.type_lookup(cls, dispatch) != cpython::type_lookup(plain, dispatch))
    cannot(Reason::TensorSubclass, std::string(cls->tp_name) + " has a __torch_dispatch__");
  if (trace.type_lookup(cls, finalizer)) cannot(Reason::TensorSubclass, std::string(cls->tp_name) + " has a __del__");
  return trace.scope().as_class(tensor, cls, view);
}

Value* as_subclass(Trace& trace, const Args& args) {
  auto [self, type] = bind(args, 2, {"self", "cls"});
  auto* tensor = trace.see_as<Tensor>(self);
  auto* cls = trace.see_as<Class>(type);
  if (!tensor || !cls || !cls->existing()) cannot(Reason::ArgumentKind, "Tensor.as_subclass");
  return as_subclass_of(trace, tensor, cls->type());
}

/// torch.Tensor._make_subclass(cls, data, require_grad=False): data.detach() as an instance of the class, and no view.
Value* make_subclass(Trace& trace, const Args& args) {
  auto [type, data, needs] = bind(args, 2, {"cls", "data", "require_grad"});
  auto* cls = trace.see_as<Class>(type);
  Value* tensor = trace.see_as<Tensor>(data);
  if (!tensor || !cls || !cls->existing()) cannot(Reason::ArgumentKind, "Tensor._make_subclass");
  if (needs && trace.constant_of(needs) != Py_False)
    cannot(Reason::TensorSubclass, std::string("a ") + cls->type()->tp_name + " that requires a gradient from then on");
  const trace::HandlersOff off(trace.scope().modes());
  auto* detached = as<Tensor>(trace.scope().detached(tensor));
  if (!detached) cannot(Reason::ArgumentKind, "Tensor._make_subclass");
  return as_subclass_of(trace, detached, cls->type(), false);
}

/// torch._C.DisableTorchFunctionSubclass: the step that entered it.
struct Entered {
  std::vector<size_t> steps;
};

Value* make_switch(Trace& trace, const Args& args) {
  positional<0>(args, 0);
  auto* made = trace.make<Object>();
  made->type = of_torch::type(of_torch::DisableTorchFunctionSubclass);
  return made;
}
Value* enter_switch(Trace& trace, const Args& args) {
  positional<1>(args, 1);
  trace.state<Entered>().steps.push_back(trace.scope().enter_mode());
  trace.scope().modes().switch_handlers(1);
  return trace.none();
}
Value* leave_switch(Trace& trace, const Args& args) {
  if (args.positional != 4) cannot(Reason::ArgumentKind, "DisableTorchFunctionSubclass.__exit__");
  std::vector<size_t>& steps = trace.state<Entered>().steps;
  if (steps.empty()) cannot(Reason::TensorSubclass, "torch functions, switched on by what was entered before");
  trace.scope().modes().leave(steps.back());
  steps.pop_back();
  trace.scope().modes().switch_handlers(-1);
  return trace.none();
}

Value* handlers_on(Trace& trace, const Args& args) {
  positional<0>(args, 0);
  return trace.boolean(trace.scope().modes().handlers_on());
}

}  // namespace

Value* ask_classes(Trace& trace, PyObject* callable, const Args& args) {
  if (!trace.scope().modes().handlers_on() || !may_ask(callable)) return nullptr;
  Askers askers(trace);
  for (size_t i = 0; i < args.positional + args.keywords; ++i) askers.look(args.values[i]);
  if (askers.empty()) return nullptr;
  if (PyFunction_Check(callable))  // asks in its body, where it passes the arguments to handlers
    return trace.inliner->call(trace.see_as<Function>(trace.pinned(callable)), args);
  std::optional<Question> question = question_of(trace, callable, args, askers);
  if (!question) return nullptr;
  Value* given = trace.tuple(std::vector<Value*>(args.values, args.values + args.positional));
  Dict* keywords = args.keywords ? trace.dict() : nullptr;
  for (size_t i = 0; i < args.keywords; ++i)
    keywords->entries.set(trace.constant(args.names[i]), args[args.positional + i]);
  return ask(trace, *question, given, keywords);
}

Value* ask_for_attribute(Trace& trace, Tensor* tensor, PyObject* descriptor) {
  static PyObject* const get = intern("__get__");
  if (!PyType_IsSubtype(of_torch::type(of_torch::TensorBase), PyDescr_TYPE(descriptor)) ||
      PyDescr_TYPE(descriptor) == &PyBaseObject_Type)
    return nullptr;
  trace.enter_opaque();
  Value* function = trace.pinned(trace.keep(take(PyObject_GetAttr(descriptor, get))));
  return ask(trace, {function, {tensor->record->type}}, trace.tuple({tensor}), nullptr);
}

void register_torch_overrides() {
  PyObject* const tensor = real("torch", "Tensor");
  Owned<> handler = take(PyObject_GetAttr(tensor, kHandler));
  protocol::add_model(PyMethod_GET_FUNCTION(handler.get()), &inherited);
  protocol::add_model(real("torch.overrides", "handle_torch_function"), &handle);
  add_rows({{of_torch::DisabledTorchFunctionImpl, &without_classes},
            {of_torch::DisableTorchFunctionSubclass, &make_switch},
            {of_torch::IsTorchFunctionEnabled, &handlers_on},
            {of_torch::TensorBaseMakeSubclass, &make_subclass}});
  PyTypeObject* const off = of_torch::type(of_torch::DisableTorchFunctionSubclass);
  add_rows(off, {{"__enter__", &enter_switch}, {"__exit__", &leave_switch}});
  add_rows(of_torch::type(of_torch::TensorBase), {{"as_subclass", &as_subclass}});
}

}  // namespace gramme::builtins
