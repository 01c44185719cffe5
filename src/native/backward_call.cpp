// Checks that the program has changed nothing of what Tensor.backward does before the engine runs.
#include "native/backward_call.h"

#include <ATen/PythonTorchFunctionTLS.h>

#include "aten/python.h"
#include "aten/state.h"
#include "base/gil.h"
#include "base/imported.h"
#include "base/process.h"
#include "torch/names.h"
#include "training/direct.h"

namespace gramme::native {
namespace {

struct State {
  PyObject* names = nullptr;     // the module's dict
  PyObject* backward = nullptr;  // torch.autograd.backward
  PyObject* logger = nullptr;    // which logs the engine's calls at DEBUG
};
AtLoad<State> state;

bool is_original() {
  static PyObject* const name = intern("backward");
  return PyDict_GetItemWithError(state->names, name) == state->backward &&
         PyDict_GetItemWithError(state->names, of_torch::attribute(of_torch::RunsEngine)) ==
             of_torch::object(of_torch::EngineRunBackward);
}

/// True if PyTorch's compiled autograd would compile the pass.
bool is_compiled() {
  static PyObject* const name = intern("compiled_autograd_enabled");
  PyObject* const module = of_torch::if_loaded(of_torch::CompiledAutograd);
  return module && PyDict_GetItemWithError(PyModule_GetDict(module), name) != Py_False;
}

/// The level that Logger.getEffectiveLevel returns; 0 if it is not known.
long level_of(PyObject* logger) {
  static PyObject *const level = intern("level"), *const parent = intern("parent");
  Owned<> at = share(logger);
  while (at && at.get() != Py_None) {
    const auto own = Owned<>::steal(PyObject_GetAttr(at.get(), level));
    const long number = own && PyLong_Check(own.get()) ? PyLong_AsLong(own.get()) : -1;
    if (number != 0) return PyErr_Clear(), number > 0 ? number : 0;
    at = Owned<>::steal(PyObject_GetAttr(at.get(), parent));
  }
  PyErr_Clear();
  return 0;
}

}  // namespace

void note_backward() {
  const Owned<> module = take(import_module("torch.autograd"));
  state.fill() = {
      take(PyObject_GetAttrString(module.get(), "__dict__")).release(),
      take(PyObject_GetAttrString(module.get(), "backward")).release(),
      take(PyObject_CallFunction(imported("logging", "getLogger").get(), "s", "torch.autograd.graph")).release()};
}

int run_backward(PyObject* loss) {
  constexpr long kDebug = 10;
  if (!Py_IS_TYPE(loss, aten::tensor_type()) || !aten::can_capture() || at::impl::torch_function_mode_enabled() ||
      !is_original() || is_compiled() || level_of(state->logger) <= kDebug)
    return 0;
  const at::Tensor tensor = aten::tensor_of(loss);
  if (!tensor.requires_grad() || !tensor.is_floating_point() || tensor.numel() != 1) return 0;
  bool ran = false;
  try {
    aten::with_warnings([&] {
      const GilReleased released;
      ran = run_directly(tensor);
    });
  } catch (...) {
    aten::set_python_error(std::current_exception());
    return -1;
  }
  return ran;
}

}  // namespace gramme::native
