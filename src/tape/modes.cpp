// Recognises mode changes from a step's target and result, and repeats them by ATen's own guards.
#include "tape/modes.h"

#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/Dtype.h>

#include "base/imported.h"
#include "base/once.h"
#include "torch/names.h"

namespace gramme::native {
namespace {

bool truth(PyObject* object, const char* name) {
  return check(PyObject_IsTrue(take(PyObject_GetAttrString(object, name)).get())) != 0;
}

/// The autocast mode that a manager object of the program enters.
std::optional<ModeCall> autocast(const Step& step, PyObject* manager) {
  ModeCall call{ModeCall::EnterAutocast};
  call.on = truth(manager, of_torch::text(of_torch::AutocastEnabled));
  const bool asked = step.arguments.size() < 3 || step.arguments[2].object.get() == Py_True;
  if (asked != call.on) return std::nullopt;  // it warned and stayed disabled
  call.cached = truth(manager, of_torch::text(of_torch::CacheEnabled));
  Owned<> device = take(PyObject_GetAttrString(manager, "device"));
  Owned<> dtype = take(PyObject_GetAttrString(manager, "fast_dtype"));
  if (!THPDtype_Check(dtype.get())) return std::nullopt;
  call.device = c10::Device(PyUnicode_AsUTF8(device.get())).type();
  call.dtype = reinterpret_cast<THPDtype*>(dtype.get())->scalar_type;
  return call;
}

struct Autocast final : Entered {
  explicit Autocast(const ModeCall& call)
      : device(call.device),
        enabled(at::autocast::is_autocast_enabled(device)),
        cached(at::autocast::is_autocast_cache_enabled()),
        dtype(at::autocast::get_autocast_dtype(device)) {
    at::autocast::set_autocast_enabled(device, call.on);
    at::autocast::set_autocast_dtype(device, call.dtype);
    at::autocast::increment_nesting();
    at::autocast::set_autocast_cache_enabled(call.cached);
  }
  ~Autocast() override {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device, enabled);
    at::autocast::set_autocast_dtype(device, dtype);
    at::autocast::set_autocast_cache_enabled(cached);
  }
  c10::DeviceType device;
  bool enabled, cached;
  c10::ScalarType dtype;
};

struct Inference final : Entered {
  explicit Inference(bool on) : mode(on) {}
  c10::InferenceMode mode;
};

struct BoundMode final : Bound {
  explicit BoundMode(const ModeCall& call) : call(call) {}
  ModeCall call;
};

void run_mode(const Instruction& instruction, Run& run) {
  const ModeCall& call = mode_of(instruction);
  switch (call.kind) {
    case ModeCall::SetGrad:
      c10::GradMode::set_enabled(call.on);
      break;
    case ModeCall::EnterAutocast:
      run.modes[call.slot] = std::make_unique<Autocast>(call);
      break;
    case ModeCall::EnterInference:
      run.modes[call.slot] = std::make_unique<Inference>(call.on);
      break;
    case ModeCall::ExitAutocast:
    case ModeCall::ExitInference:
      run.modes[call.slot].reset();
      break;
  }
}

}  // namespace

std::optional<ModeCall> mode_call(const Step& step, PyObject* result) {
  PyObject* const set_grad = of_torch::object(of_torch::SetGradEnabled);
  PyObject* const enter_autocast = of_torch::object(of_torch::EnterAutocast);
  PyObject* const exit_autocast = of_torch::object(of_torch::ExitAutocast);
  PyObject* const enter_inference = of_torch::object(of_torch::EnterInferenceMode);
  PyObject* const exit_inference = of_torch::object(of_torch::ExitInferenceMode);
  if (step.kind != Step::Function || step.arguments.empty() || !step.keywords.empty()) return std::nullopt;
  const Operand& first = step.arguments[0];
  PyObject* target = step.target.get();
  const bool leaves = target == exit_autocast || target == exit_inference;
  if (leaves) {
    if (first.kind != Operand::Value) return std::nullopt;
    ModeCall call{target == exit_autocast ? ModeCall::ExitAutocast : ModeCall::ExitInference};
    call.entered = first.value;
    return call;
  }
  if (target == enter_autocast) return autocast(step, result);
  if (target != set_grad && target != enter_inference) return std::nullopt;
  if (first.kind != Operand::Constant || !PyBool_Check(first.object.get())) return std::nullopt;
  ModeCall call{target == set_grad ? ModeCall::SetGrad : ModeCall::EnterInference};
  call.on = first.object.get() == Py_True;
  return call;
}

void bind_mode(Instruction& instruction, const ModeCall& call) {
  instruction.kind = Instruction::Mode;
  instruction.bound = std::make_unique<BoundMode>(call);
  instruction.invoke = run_mode;
}

const ModeCall& mode_of(const Instruction& instruction) {
  return static_cast<const BoundMode*>(instruction.bound.get())->call;
}

std::string print(const ModeCall& call) {
  const std::string on = call.on ? "True" : "False", slot = std::to_string(call.slot);
  switch (call.kind) {
    case ModeCall::SetGrad:
      return "set_grad(" + on + ")";
    case ModeCall::EnterAutocast:
      return "enter_autocast #" + slot + " (" + c10::DeviceTypeName(call.device, true) + ", " +
             c10::toString(call.dtype) + ", " + on + ")";
    case ModeCall::EnterInference:
      return "enter_inference #" + slot + " (" + on + ")";
    case ModeCall::ExitAutocast:
    case ModeCall::ExitInference:
      return "leave #" + slot;
  }
  return {};
}

}  // namespace gramme::native
