// Converts the operators that the engine called for a piece to a tape.
#include "training/backward_tape.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include "passes/assemble.h"
#include "tape/composites.h"

namespace gramme::native {
namespace {

using torch::autograd::variable_list;

bool is_plain(const at::Tensor& tensor) {
  return tensor.layout() == c10::kStrided && plain_keys().isSupersetOf(tensor.key_set()) &&
         !tensor.unsafeGetTensorImpl()->is_wrapped_number();
}

}  // namespace

std::optional<BackwardKey> BackwardKey::read(const variable_list& gradients, std::vector<bool> wanted) {
  if (!aten::kernels_alone() || !aten::can_capture() || torch::autograd::AnomalyMode::is_enabled()) return std::nullopt;
  BackwardKey key;
  for (const at::Tensor& gradient : gradients) {
    key.strides.emplace_back();
    if (!gradient.defined()) continue;
    if (!is_plain(gradient)) return std::nullopt;
    key.strides.back().emplace(gradient.strides());
  }
  key.wanted = std::move(wanted);
  key.state = aten::GlobalState::read();
  key.settings = KernelSettings::read();
  return key;
}

BackwardTape::Record::Record(EagerGraph& graph, size_t piece, BackwardKey key, const variable_list& gradients,
                             Pass pass) {
  Recorder& recorder = *graph.recorder();
  // New tensors on the same memory, since a tensor may come in twice or have been seen in the forward.
  variable_list given(gradients.size());
  std::vector<Register> slots(gradients.size(), kNone);
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    given[i] = gradients[i].tensor_data();
    slots[i] = recorder.add(given[i]);
  }
  recorder.forget();
  std::vector<Observed> observed;
  try {
    Recorder::Watch watch(recorder);
    found = graph.run(piece, given, key.wanted, pass);
    recorder.take(observed);
  } catch (...) {
    recorder.forget();
    throw;
  }
  std::vector<Register> leaving;
  for (const at::Tensor& gradient : found) {
    leaving.push_back(gradient.defined() ? recorder.find(gradient) : kNone);
    if (!gradient.defined()) continue;
    if (leaving.back() == kNone) why = "a gradient is not made by operators";
    if (!is_plain(gradient)) why = "a gradient is not a plain tensor";
  }
  for (at::Tensor& gradient : found)
    for (size_t i = 0; i < given.size(); ++i)
      if (gradient.defined() && gradient.is_same(given[i])) gradient = gradients[i];
  if (!why.empty()) return;
  auto made = ConvertedTape::convert(recorder, observed, {std::move(slots), graph.flat_registers()}, leaving, why);
  if (made) tape = std::make_shared<const BackwardTape>(std::move(key), std::move(*made));
}

}  // namespace gramme::native
