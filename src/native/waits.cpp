// Finds those steps, and waits for collectives below autograd.
#include "native/waits.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <string>

#include "aten/python.h"
#include "base/gil.h"
#include "native/call.h"
#include "record/targets.h"
#include "torch/names.h"
#include "training/forward_call.h"

namespace gramme::native {

PyObject* class_of_waiting() {
  PyObject* const function = of_torch::if_loaded(of_torch::WaitTensor);
  return function && PyFunction_Check(function)
             ? PyDict_GetItemString(PyFunction_GET_GLOBALS(function), "AsyncCollectiveTensor")
             : nullptr;
}

Owned<> inside(PyObject* waiting) {
  static PyObject* const name = intern("elem");
  return take(PyObject_GetAttr(waiting, name));
}

std::optional<WaitOperator> wait_for_local(const Program& program, size_t index) {
  static PyObject* const to_local = intern("to_local");
  const Step& step = program.steps[index];
  if (step.kind != Step::Function || step.arguments.size() != 1 || !step.keywords.empty()) return std::nullopt;
  const Operand& argument = step.arguments[0];
  if (argument.kind != Operand::Value || argument.value < program.inputs) return std::nullopt;
  const Step& made_by = program.steps[static_cast<size_t>(argument.value - program.inputs)];
  if (made_by.kind != Step::Method || PyUnicode_Compare(made_by.target.get(), to_local) != 0) return std::nullopt;
  const std::string name = operator_of(step);
  if (!name.ends_with("::wait_tensor")) return std::nullopt;
  return c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "").typed<at::Tensor(const at::Tensor&)>();
}

Owned<> waited(const WaitOperator& wait, PyObject* object) {
  Owned<> plain = is_plain_tensor(object) ? share(object) : inside(object);
  const at::Tensor given = aten::tensor_of(object);
  at::Tensor made = aten::tensor_of(plain.get());
  {
    const GilReleased released;
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      wait.call(made);
    }
    if (given.is_same(made) || !given.requires_grad() || !c10::GradMode::is_enabled()) return plain;
    made = without_history(made);
    torch::autograd::impl::set_gradient_edge(made, torch::autograd::impl::gradient_edge(given));
  }
  return aten::object_of(made);
}

}  // namespace gramme::native
