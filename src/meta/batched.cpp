#include "meta/batched.h"

#include <ATen/functorch/BatchedTensorImpl.h>

#include "base/imported.h"
#include "base/once.h"

namespace gramme::meta {

namespace {
/// Of torch._C._functorch; its header in C++ needs another library's.
PyObject* function(const char* name) { return imported("torch._C._functorch", name).release(); }

const char* randomness(const VmapLevel& level) {
  if (level.randomness == 's') return "same";
  return level.randomness == 'd' ? "different" : "error";
}
}  // namespace

EnteredLevels::EnteredLevels(const std::vector<VmapLevel>& levels) {
  PyObject* const enter = once([] { return function("_vmap_increment_nesting"); });
  try {
    for (const VmapLevel& level : levels) {
      take(PyObject_CallFunction(enter, "Ls", static_cast<long long>(level.size), randomness(level)));
      ++count_;
    }
  } catch (const PythonError&) {
    leave();
    throw;
  }
}

EnteredLevels::~EnteredLevels() { leave(); }

void EnteredLevels::leave() {
  ErrorState pending;
  PyObject* const one = once([] { return function("_vmap_decrement_nesting"); });
  for (; count_; --count_)
    if (!Owned<>::steal(PyObject_CallNoArgs(one))) PyErr_Clear();
}

const at::Tensor* unwrap(const at::Tensor& tensor) {
  const auto* batched = at::functorch::maybeGetBatchedImpl(tensor);
  return batched ? &batched->value() : nullptr;
}

const at::Tensor& innermost(const at::Tensor& tensor) {
  const at::Tensor* found = &tensor;
  while (const at::Tensor* inner = unwrap(*found)) found = inner;
  return *found;
}

at::Tensor wrapped(const at::Tensor& innermost, const Record& record) {
  if (!record.inner) return innermost;
  return at::functorch::makeBatched(wrapped(innermost, *record.inner), record.batch_dim, record.level);
}

int depth_in(const at::Tensor& tensor, const at::Tensor& outer) {
  int depth = 0;
  for (const at::Tensor* at = &outer; at; at = unwrap(*at), ++depth)
    if (at->is_same(tensor)) return depth;
  return -1;
}

}  // namespace gramme::meta
