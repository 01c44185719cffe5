// Conversions between tensors and NumPy arrays that share memory: no graph nodes.
#include "aten/arrays.h"
#include "base/once.h"
#include "builtins/python_arrays.h"

namespace gramme::builtins {

using namespace value;
using trace::Array;
using trace::Arrays;

namespace {

bool traces_arrays() {
  PyObject* const traces = once([] { return helper("traces"); });
  return take(PyObject_CallNoArgs(traces)).get() == Py_True;
}

/// tensor.numpy(): an array that shares the tensor's memory.
Value* to_array(Trace& trace, const Args& args) {
  Tensor* tensor = self_tensor(trace, args, "numpy");
  protocol::refuse_subclass(tensor, "Tensor.numpy");
  refuse_tensor(tensor, "Tensor.numpy of such a tensor");
  const bool plain = args.positional == 1 && !args.keywords && !trace.scope().requires_grad(tensor);
  if (!plain || trace.confinement.any() || !traces_arrays()) cannot(Reason::DataDependentValue, "Tensor.numpy");
  PyObject* const dtype_of = once([] { return helper("has_dtype"); });
  if (take(PyObject_CallOneArg(dtype_of, meta::dtype_object(*tensor->record))).get() != Py_True)
    cannot(Reason::CallUnknown, "Tensor.numpy of a dtype that NumPy lacks");
  trace.scope().state<Arrays>().given.insert(tensor);
  return trace::new_array(trace, {tensor, true}, aten::array_type());
}

/// The array's tensor as a new object, as PyTorch returns it.
Value* given_out(Trace& trace, const Array& array) {
  if (trace.scope().state<Arrays>().given.insert(array.tensor).second) return array.tensor;
  return trace.scope().detached(array.tensor);
}

/// torch.from_numpy(array), torch.as_tensor(array)
template <Text name>
Value* to_tensor(Trace& trace, const Args& args) {
  const Array* array = args.positional == 1 && !args.keywords ? trace::array_of(trace, trace.see(args[0])) : nullptr;
  if (!array || !array->writeable || array->view_of || trace.see_as<Object>(args[0])->type != aten::array_type() ||
      !traces_arrays())
    cannot(Reason::CallUnknown, name.text);
  refuse_tensor(array->tensor, name.text);
  return given_out(trace, *array);
}

/// torch.as_tensor() of an array, else the call as it is.
Value* as_tensor(Trace& trace, const Args& args) {
  PyObject* const function = once([] { return real("torch", "as_tensor"); });
  const bool array = args.positional && trace::array_of(trace, trace.see(args[0]));
  return array ? to_tensor<"torch.as_tensor">(trace, args) : trace.emit(function, args);
}

}  // namespace

Value* tensor_of_array(Trace& trace, const Args& args) {
  static PyObject* const clone = intern("clone");
  const Array* array = args.positional == 1 && !args.keywords ? trace::array_of(trace, trace.see(args[0])) : nullptr;
  if (!array || array->view_of || array->tensor->record->requires_grad) return nullptr;
  refuse_tensor(array->tensor, "torch.tensor");
  Value* self = array->tensor;
  return trace.emit_method(clone, Args{&self, 1, nullptr, 0});
}

void register_tensors_of_arrays() {
  add_rows(of_torch::type(of_torch::TensorBase), {{"numpy", &to_array}});
  add_rows("torch", {{"from_numpy", &to_tensor<"torch.from_numpy">}, {"as_tensor", &as_tensor}});
}

}  // namespace gramme::builtins
