// Entering and leaving functorch levels by ATen's interface, and wrapping tensors for them.
#include "meta/batched.h"

#include <ATen/functorch/BatchedTensorImpl.h>
#include <c10/core/AutogradState.h>
#include <torch/csrc/autograd/forward_grad.h>

#include "aten/python.h"
#include "base/imported.h"
#include "base/once.h"
#include "meta/fakes.h"
#include "torch/names.h"

// Declared here because functorch's headers need another library's.
namespace at::functorch {
TORCH_API Tensor makeTensorWrapper(const Tensor& tensor, int64_t level, bool is_immutable);
}  // namespace at::functorch

namespace gramme::meta {

namespace {
const char* randomness(const Level& level) {
  if (level.randomness == 's') return "same";
  return level.randomness == 'd' ? "different" : "error";
}

/// Scope with the grad mode (or forward-AD mode) in which the level was entered.
class ModeAtEntry {
 public:
  explicit ModeAtEntry(const Level& level) {
    if (level.kind == Level::Grad) state().set_grad_mode(level.enabled);
    if (level.kind == Level::Jvp) state().set_fw_grad_mode(level.enabled);
  }
  ~ModeAtEntry() {
    state().set_grad_mode(grad_);
    state().set_fw_grad_mode(forward_);
  }
  ModeAtEntry(const ModeAtEntry&) = delete;

 private:
  static c10::AutogradState& state() { return c10::AutogradState::get_tls_state(); }
  bool grad_ = state().get_grad_mode(), forward_ = state().get_fw_grad_mode();
};
}  // namespace

EnteredLevels::EnteredLevels(const std::vector<Level>& levels) {
  try {
    for (const Level& level : levels) enter(level);
  } catch (const PythonError&) {
    leave();
    throw;
  }
}

EnteredLevels::~EnteredLevels() { leave(); }

void EnteredLevels::enter(const Level& level) {
  PyObject* const vmap = of_torch::object(of_torch::EnterVmap);
  PyObject* const grad = of_torch::object(of_torch::GradIncrementNesting);
  PyObject* const jvp = of_torch::object(of_torch::EnterJvp);
  ModeAtEntry mode(level);
  if (level.kind == Level::Vmap)
    take(PyObject_CallFunction(vmap, "Ls", static_cast<long long>(level.size), randomness(level)));
  else
    take(PyObject_CallNoArgs(level.kind == Level::Grad ? grad : jvp));
  entered_.push_back(level.kind);
  if (level.kind != Level::Jvp || dual_) return;
  torch::autograd::ForwardADLevel::get_next_idx();
  dual_ = true;
}

void EnteredLevels::leave() {
  ErrorState pending;
  PyObject* const vmap = of_torch::object(of_torch::LeaveVmap);
  PyObject* const grad = of_torch::object(of_torch::GradDecrementNesting);
  PyObject* const jvp = of_torch::object(of_torch::LeaveJvp);
  if (std::exchange(dual_, false)) torch::autograd::ForwardADLevel::release_idx(0);
  for (; !entered_.empty(); entered_.pop_back()) {
    PyObject* one = entered_.back() == Level::Vmap ? vmap : entered_.back() == Level::Grad ? grad : jvp;
    if (!Owned<>::steal(PyObject_CallNoArgs(one))) PyErr_Clear();
  }
}

bool tracks_gradients(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::FuncTorchGradWrapper);
}

int32_t level_of(const at::Tensor& tensor) {
  PyObject* const level = of_torch::object(of_torch::MaybeGetLevel);
  Owned<> wrapper = aten::object_of(tensor);
  return static_cast<int32_t>(PyLong_AsLong(take(PyObject_CallOneArg(level, wrapper.get())).get()));
}

at::Tensor unwrap(const at::Tensor& tensor) {
  if (const auto* batched = at::functorch::maybeGetBatchedImpl(tensor)) return batched->value();
  if (!tracks_gradients(tensor)) return {};
  PyObject* const value = of_torch::object(of_torch::GetUnwrapped);
  Owned<> wrapper = aten::object_of(tensor);
  return aten::tensor_of(take(PyObject_CallOneArg(value, wrapper.get())).get());
}

at::Tensor innermost(const at::Tensor& tensor) {
  at::Tensor found = tensor;
  while (true) {
    at::Tensor inner = unwrap(found);
    if (!inner.defined()) return found;
    found = std::move(inner);
  }
}

bool can_wrap(const Record& record, const std::vector<Level>& levels) {
  if (!record.inner) return true;
  if (record.level < 1 || static_cast<size_t>(record.level) > levels.size()) return false;
  const bool batched = levels[record.level - 1].kind == Level::Vmap;
  return batched == is_batched(record) && can_wrap(*record.inner, levels);
}

at::Tensor wrapped(const at::Tensor& innermost, const Record& record) {
  if (!record.inner) return innermost;
  at::Tensor inner = wrapped(innermost, *record.inner);
  if (is_batched(record)) return at::functorch::makeBatched(inner, record.batch_dim, record.level);
  at::Tensor made = at::functorch::makeTensorWrapper(inner, record.level, false);
  require_gradients(made, record);
  return made;
}

int depth_in(const at::Tensor& tensor, const at::Tensor& outer) {
  int depth = 0;
  for (at::Tensor at = outer; at.defined(); at = unwrap(at), ++depth)
    if (at.is_same(tensor)) return depth;
  return -1;
}

}  // namespace gramme::meta
