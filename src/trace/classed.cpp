// Tensor subclasses with a __torch_function__ in a capture.
//
// A graph has only plain tensors. An input of a subclass is passed as a plain tensor with the same memory. A result of
// as_subclass() has the node of the tensor it was made from, and replay sets its class. builtins/torch_overrides.cpp
// decides whose __torch_function__ handles an operator; an instance of a subclass that arrives here ends the segment.
#include <algorithm>

#include "aten/classes.h"
#include "cpython/objects.h"
#include "meta/wrapped.h"
#include "torch/names.h"
#include "trace/scope.h"

namespace gramme::trace {

using namespace value;

namespace {

/// A jagged tensor's class is asked where the graph runs.
bool is_asked(Classes& classes, const Tensor* tensor) {
  static PyObject* const name = intern("__torch_function__");
  PyTypeObject* type = tensor->record->type;
  if (aten::is_exact_tensor_type(type) || tensor->record->opaque) return false;
  PyObject* found = classes.lookup(type, name);
  return found && found != of_torch::object(of_torch::DisabledTorchFunctionImpl);
}

/// True if at most the tensor's content and its need of a gradient changed.
bool is_write(const meta::Record& before, const meta::Record& after) {
  return before.dtype == after.dtype && before.sizes == after.sizes && before.strides == after.strides &&
         before.storage_offset == after.storage_offset && before.requires_grad <= after.requires_grad;
}

}  // namespace

void Scope::note_class(PyTypeObject* type) {
  const bool has_twin = !meta::is_wrapper(type);
  if (modes_.in_level()) cannot(Reason::TensorSubclass, "inside a transform of torch.func");
  if (has_twin && graph_ != &root_) cannot(Reason::TensorSubclass, "inside an operator that takes functions");
  if (!capture_.contract.runs) cannot(Reason::TensorSubclass, "in a graph that does not run here");
  has_classes_ = true;
  has_twins_ |= has_twin;
}

bool Scope::has_twin(const Tensor* tensor) {
  if (tensor->plain || (tensor->base && tensor->base->plain == tensor)) return true;
  return (tensor->existing() && !aten::is_exact_tensor_type(tensor->record->type)) ||
         std::ranges::any_of(tensor->views, [&](const Tensor* view) { return view->plain == tensor; });
}

void Scope::refuse_twin(const Tensor* tensor, const char* change) {
  if (has_twin(tensor)) cannot(Reason::TensorSubclass, std::string("a change of ") + change);
}

void Scope::refuse_classes(const meta::Outcome& outcome, const std::vector<Tensor*>& leaves) const {
  for (const Tensor* leaf : leaves)
    if (modes_.handlers_on() && is_asked(capture_.classes, leaf))
      cannot(Reason::TensorSubclass, std::string(leaf->record->type->tp_name) + " has a __torch_function__");
  for (const meta::Mutation& mutation : outcome.mutations) {
    const Tensor* leaf = leaves.at(mutation.leaf);
    refuse_remade(leaf, *mutation.record);
    if (!is_write(*leaf->record, *mutation.record)) refuse_twin(leaf, "sizes, or what it is to autograd");
  }
}

Tensor* Scope::as_class(Tensor* tensor, PyTypeObject* type, bool view) {
  const meta::Record& record = *tensor->record;
  if (writes_.late(tensor) != effects::Late::Free) cannot(Reason::LateEffect, "as_subclass() of a tensor");
  if (record.inner || record.is_inference || aten::inference_mode() || (record.requires_grad && !aten::grad_enabled()))
    cannot(Reason::TensorSubclass, "a tensor of another class in this mode");
  note_class(type);
  auto* made = capture_.make<Tensor>();
  made->plain = tensor;
  made->record = meta::with_type(record.is_leaf == !record.requires_grad
                                     ? &record
                                     : meta::with_requires_grad(&record, record.requires_grad, false),
                                 type);
  made->made_at = capture_.steps();
  made->base = tensor;
  made->differentiable = view;
  made->special_view = view && is_special_to_autograd(*tensor);
  if (view) tensor->views.push_back(made);
  tensor->used = true;
  return made;
}

}  // namespace gramme::trace
