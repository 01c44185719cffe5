// Reads the specifications and local tensors of inputs.
#include "native/local_key.h"

#include <torch/csrc/autograd/anomaly_mode.h>

#include <algorithm>

#include "aten/python.h"
#include "base/once.h"
#include "native/call.h"
#include "tape/invoke.h"
#include "torch/names.h"

namespace gramme::native {
namespace {

/// True if nothing beside autograd takes part in operators or watches them.
bool is_quiet() {
  return (aten::kernels_alone() || aten::autograd_and_autocast_alone()) && !aten::autocast_enabled() &&
         aten::can_capture() && !aten::saved_tensors_hooked() && !torch::autograd::AnomalyMode::is_enabled() &&
         unwatched();
}

/// A setting of DTensor's: None, True or False; null if this version has none.
Owned<> redistribution(of_torch::Attribute setting) {
  PyObject* const module = of_torch::if_loaded(of_torch::Redistribution);
  Owned<> value = module ? Owned<>::steal(PyObject_GetAttr(module, of_torch::attribute(setting))) : Owned<>();
  if (!value) PyErr_Clear();
  return value;
}

}  // namespace

bool LocalInput::operator==(const LocalInput& other) const {
  if (type != other.type || requires_grad != other.requires_grad) return false;
  if (object.get() == other.object.get()) return true;
  if (!is_distributed() || !object || !other.object) return false;
  const int equal = PyObject_RichCompareBool(object.get(), other.object.get(), Py_EQ);
  if (equal < 0) throw PythonError();
  return equal;
}

bool LocalKey::operator==(const LocalKey& other) const {
  return differentiable == other.differentiable && state == other.state && settings == other.settings &&
         cheapest.get() == other.cheapest.get() && plain.get() == other.plain.get() && inputs == other.inputs;
}

std::optional<LocalKey> LocalKey::read(std::span<PyObject* const> inputs, std::vector<at::Tensor>& locals) {
  if (!is_quiet()) return std::nullopt;
  LocalKey key;
  key.inputs.reserve(inputs.size());
  locals.reserve(inputs.size());
  for (PyObject* const object : inputs) {
    LocalInput& input = key.inputs.emplace_back(LocalInput{nullptr, {}, false});
    locals.emplace_back();
    if (!aten::is_tensor(object)) {
      input.object = share(object);
      continue;
    }
    const Owned<> local = is_plain_tensor(object)          ? share(object)
                          : native::is_distributed(object) ? local_of(object)
                                                           : Owned<>();
    if (!local || !is_plain_tensor(local.get())) return std::nullopt;
    if (local.get() != object) input.object = spec_of(object);
    locals.back() = aten::tensor_of(local.get());
    const at::Tensor& tensor = locals.back();
    if (tensor.layout() != c10::kStrided || !tensor.device().is_cpu() || tensor.is_conj() || tensor.is_neg())
      return std::nullopt;
    input.type = aten::type_below_autograd(tensor, true);
    input.requires_grad = aten::tensor_of(object).requires_grad();
  }
  key.differentiable = aten::grad_enabled() && std::ranges::any_of(key.inputs, &LocalInput::requires_grad);
  key.state = aten::GlobalState::read();
  key.settings = KernelSettings::read();
  key.cheapest = redistribution(of_torch::CheapestRedistribution);
  key.plain = redistribution(of_torch::PlainRedistribution);
  return key;
}

Owned<> local_of(PyObject* distributed) {
  return take(PyObject_GetAttr(distributed, of_torch::attribute(of_torch::DtensorLocal)));
}

Owned<> spec_of(PyObject* distributed) {
  return take(PyObject_GetAttr(distributed, of_torch::attribute(of_torch::DtensorSpec)));
}

bool is_distributed(PyObject* object) {
  PyObject* const type = of_torch::if_loaded(of_torch::Dtensor);
  return type && reinterpret_cast<PyObject*>(Py_TYPE(object)) == type;
}

Owned<> distributed(const at::Tensor& local, PyObject* spec) {
  PyObject* const names = once([] { return take(Py_BuildValue("(s)", "requires_grad")).release(); });
  const Owned<> object = aten::object_of(local);
  PyObject* const arguments[] = {object.get(), spec, Py_False};
  return take(PyObject_Vectorcall(of_torch::if_loaded(of_torch::Dtensor), arguments, 2, names));
}

}  // namespace gramme::native
