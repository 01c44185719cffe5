// Torch function modes of the program: a stack in the capture. Calls of torch go to the innermost mode's
// __torch_function__, which is traced. Calls that torch might show to a mode in ways unknown here end the segment.
#include "base/once.h"
#include "builtins/torch_overrides.h"
#include "builtins/torch_support.h"
#include "cpython/objects.h"
#include "torch/names.h"

namespace gramme::builtins {

using namespace value;

namespace {

// ---- the stack

/// Enters a mode; the segment ends before it unless it also leaves the mode.
void push(Trace& trace, Value* mode) { trace.scope().modes().push_function_mode({mode, trace.scope().enter_mode()}); }

Value* pop(Trace& trace) {
  if (!trace.scope().modes().in_function_mode())
    cannot(Reason::CallUnknown, "leaving a torch function mode that was entered before");
  trace::FunctionMode left = trace.scope().modes().pop_function_mode();
  trace.scope().modes().leave(left.step);
  return left.mode;
}

Value* push_mode(Trace& trace, const Args& args) {
  auto [mode] = positional<1>(args, 1);
  push(trace, mode);
  return trace.none();
}
Value* pop_mode(Trace& trace, const Args& args) {
  positional<0>(args, 0);
  return pop(trace);
}
Value* count_modes(Trace& trace, const Args& args) {
  positional<0>(args, 0);
  return trace.integer(static_cast<int64_t>(trace.scope().modes().function_modes().size()));
}
Value* mode_at(Trace& trace, const Args& args) {
  auto [where] = positional<1>(args, 1);
  auto at = static_cast<size_t>(protocol::index(trace, where));
  if (at >= trace.scope().modes().function_modes().size())
    cannot(Reason::CallUnknown, "a torch function mode that was entered before");
  return trace.scope().modes().function_modes()[at].mode;
}

/// with torch.device(…): enters a DeviceContext mode.
Value* enter_device(Trace& trace, const Args& args) {
  PyObject* const context = of_torch::object(of_torch::DeviceContext);
  auto [self] = positional<1>(args, 1);
  push(trace, protocol::call(trace, trace.pinned(context), {self}));
  return self;
}
Value* exit_device(Trace& trace, const Args& args) {
  if (args.positional != 4) cannot(Reason::ArgumentKind, "torch.device.__exit__");
  pop(trace);
  return trace.none();
}

// ---- calls

bool is_model_of_stack(PyObject* callable) {
  protocol::Model model = protocol::find_model(callable).model;
  return model == &push_mode || model == &pop_mode || model == &count_modes || model == &mode_at ||
         model == &enter_device || model == &exit_device;
}

/// True for C functions and tensor methods that modes intercept: overridable ones and those that make tensors.
bool is_overridable(PyObject* callable) {
  PyObject* const functions = of_torch::object(of_torch::VariableFunctions);
  PyObject* const makers =
      once([] { return take(PyObject_CallNoArgs(of_torch::object(of_torch::DeviceConstructors))).release(); });
  static PyObject* const name = intern("__name__");
  if (is_ignored(callable) && !check(PySet_Contains(makers, callable))) return false;
  if (Py_IS_TYPE(callable, &PyMethodDescr_Type)) return true;
  Owned<> found = Owned<>::steal(PyObject_GetAttr(functions, take(PyObject_GetAttr(callable, name)).get()));
  if (!found) PyErr_Clear();
  return found.get() == callable;
}

}  // namespace

bool is_of_torch(PyObject* callable) {
  auto* const base = of_torch::type(of_torch::TensorBase);
  static PyObject* const module_name = intern("__module__");
  static PyObject* const torch = intern("torch");
  bool descr = Py_IS_TYPE(callable, &PyMethodDescr_Type) || Py_IS_TYPE(callable, &PyWrapperDescr_Type) ||
               Py_IS_TYPE(callable, &PyGetSetDescr_Type);
  if (descr) return PyType_IsSubtype(base, PyDescr_TYPE(callable)) && PyDescr_TYPE(callable) != &PyBaseObject_Type;
  Owned<> module = Owned<>::steal(PyObject_GetAttr(callable, module_name));
  if (!module) PyErr_Clear();
  if (PyCFunction_Check(callable) && (!module || module.get() == Py_None)) return true;  // of _VariableFunctions
  return module && PyUnicode_Check(module.get()) &&
         PyUnicode_Tailmatch(module.get(), torch, 0, PY_SSIZE_T_MAX, -1) == 1;
}

bool is_of_functorch(PyObject* callable) {
  static PyObject* const module_name = intern("__module__");
  if (!PyCFunction_Check(callable)) return false;
  Owned<> module = Owned<>::steal(PyObject_GetAttr(callable, module_name));
  if (!module) PyErr_Clear();
  return module && PyUnicode_Check(module.get()) &&
         PyUnicode_CompareWithASCIIString(module.get(), of_torch::text(of_torch::FunctorchInC)) == 0;
}

namespace {

/// Scope without the innermost mode.
class Inner {
 public:
  explicit Inner(Trace& trace) : trace_(trace), mode_(trace.scope().modes().pop_function_mode()) {}
  ~Inner() { trace_.scope().modes().push_function_mode(mode_); }
  Inner(const Inner&) = delete;
  Value* mode() const { return mode_.mode; }

 private:
  Trace& trace_;
  trace::FunctionMode mode_;
};

/// mode.__torch_function__(function, types, args, kwargs), as C calls it. `types` is opaque, since its content differs
/// between functions.
Value* dispatch(Trace& trace, PyObject* callable, const Args& args) {
  static PyObject* const hook = intern("__torch_function__");
  if (!trace.scope().modes().in_function_mode()) return ask_classes(trace, callable, args);
  if (is_model_of_stack(callable) || !is_of_torch(callable)) return nullptr;
  if (is_of_functorch(callable)) return nullptr;
  if (!is_overridable(callable)) cannot(Reason::CallUnknown, "a function of torch in a torch function mode");
  Value* positional_args = trace.tuple(std::vector<Value*>(args.values, args.values + args.positional));
  std::vector<Value*> all{trace.pinned(callable), trace.make<Super>(), positional_args};
  if (args.keywords) {
    Dict* keywords = trace.dict();
    for (size_t i = 0; i < args.keywords; ++i)
      keywords->entries.set(trace.constant(args.names[i]), args[args.positional + i]);
    all.push_back(keywords);
  }
  Inner inner(trace);
  Value* method = protocol::get_attribute(trace, inner.mode(), hook);
  Value* result = trace.see(protocol::call(trace, method, Args{all.data(), all.size(), nullptr, 0}));
  if (result->kind == Kind::Constant && result->object == Py_NotImplemented)
    cannot(Reason::CallUnknown, "a torch function mode that returns NotImplemented");
  return result;
}

}  // namespace

void register_torch_function_modes() {
  add_rows({{of_torch::PushOnTorchFunctionStack, &push_mode},
            {of_torch::PopTorchFunctionStack, &pop_mode},
            {of_torch::LenTorchFunctionStack, &count_modes},
            {of_torch::GetFunctionStackAt, &mode_at}});
  add_rows("torch", {{"device.__enter__", &enter_device}, {"device.__exit__", &exit_device}});
  protocol::set_mode_dispatch(&dispatch);
  protocol::add_unseen(real("torch.compiler", "is_compiling"));
  for (of_torch::Name name : {of_torch::LazyLoadDecompositions, of_torch::VmapIncrementNesting,
                              of_torch::VmapDecrementNesting, of_torch::AddBatchDim, of_torch::RemoveBatchDim})
    protocol::add_unseen(of_torch::object(name));
}

}  // namespace gramme::builtins
