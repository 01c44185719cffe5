// Changes of a tensor's autograd metadata, and new parameters. Replay makes them by torch's own functions, because a
// tensor that a backend returns for a leaf need not be one.
#include "builtins/torch_leaves.h"

#include "aten/classes.h"
#include "base/once.h"
#include "cpython/objects.h"
#include "torch/names.h"
#include "value/views.h"

namespace gramme::builtins {

using namespace value;

namespace {

/// True if the tensor is a differentiable view, or has views, which would change with it.
bool has_relatives(Trace& trace, Tensor* tensor) {
  if (tensor->differentiable || !tensor->views.empty()) return true;
  bool found = false;
  if (tensor->existing())
    trace.objects.each([&](Value* value) {
      auto* other = as<Tensor>(value);
      found |= other && other != tensor && other->existing() && aten::overlap(other->object, tensor->object);
    });
  return found;
}

bool can_need_grad(const meta::Record& record) { return meta::is_floating_point(record) || meta::is_complex(record); }

Value* requires_grad_(Trace& trace, const Args& args) {
  auto [self, flag] = bind(args, 1, {"self", "requires_grad"});
  (void)self;
  Tensor* tensor = self_tensor(trace, args, "requires_grad_");
  PyObject* wanted = flag ? trace.constant_of(flag) : Py_True;
  if (!wanted || !PyBool_Check(wanted)) cannot(Reason::ArgumentKind, "Tensor.requires_grad_");
  set_requires_grad(trace, tensor, wanted == Py_True);
  return tensor;
}

/// nn.Parameter(data, requires_grad): made of the real tensor by replay.
Value* make_parameter(Trace& trace, const Args& args) {
  PyObject* const type = once([] { return real("torch.nn", "Parameter"); });
  auto [data, flag] = bind(args, 1, {"data", "requires_grad"});
  PyObject* wanted = flag ? trace.constant_of(flag) : Py_True;
  auto* tensor = trace.see_as<Tensor>(data);
  if (!tensor || !wanted || !PyBool_Check(wanted)) cannot(Reason::ArgumentKind, "torch.nn.Parameter(…)");
  const meta::Record& record = *tensor->record;
  if (!aten::is_exact_tensor_type(record.type) || record.is_inference || (wanted == Py_True && !can_need_grad(record)))
    cannot(Reason::ArgumentKind, "torch.nn.Parameter(…) of this tensor");
  auto* parameter = trace.make<Tensor>();
  parameter->record = meta::with_type(meta::with_requires_grad(&record, wanted == Py_True, true),
                                      reinterpret_cast<PyTypeObject*>(type));
  trace.call_in_replay(type, {tensor, trace.boolean(wanted == Py_True)}, parameter);
  trace.scope().close(parameter);
  return parameter;
}

}  // namespace

void set_requires_grad(Trace& trace, Tensor* tensor, bool wanted) {
  PyObject* const method = of_torch::object(of_torch::TensorBaseRequiresGrad);
  const meta::Record& record = *tensor->record;
  if (trace.scope().requires_grad(tensor) == wanted) return;
  if (record.is_inference || !record.is_leaf || !can_need_grad(record))
    cannot(Reason::OperatorFailed, "Tensor.requires_grad_");
  if (has_relatives(trace, tensor))
    cannot(Reason::MutationUnsupported, "Tensor.requires_grad_ of a tensor that is a view or has views");
  trace.call_in_replay(method, {tensor, trace.boolean(wanted)});
  tensor->record = meta::with_requires_grad(&record, wanted, true);
  trace.scope().toggle(tensor);
}

namespace {

/// True if `data` is the tensor's own memory, as in `w.data = w.data.to(device)` without a change of device.
bool is_own_data(Trace& trace, const Tensor* tensor, const Tensor* data) {
  const effects::WriteLedger& writes = trace.scope().writes();
  const bool closed = writes.late(tensor) == effects::Late::Closed || writes.late(data) == effects::Late::Closed;
  return !closed && !trace.state<Storages>().replaced && storage_root(tensor) == storage_root(data);
}

}  // namespace

void set_data(Trace& trace, Tensor* tensor, Value* value) {
  PyObject* const setter = once([] {
    return take(PyObject_GetAttrString(cpython::type_lookup(of_torch::type(of_torch::TensorBase), intern("data")),
                                       "__set__"))
        .release();
  });
  auto* data = value ? trace.see_as<Tensor>(value) : nullptr;
  if (!data) cannot(Reason::MutationUnsupported, "Tensor.data set to anything but a tensor");
  const meta::Record &to = *tensor->record, &from = *data->record;
  bool same = same_numbers(trace, to.sizes, from.sizes) && same_numbers(trace, to.strides, from.strides) &&
              to.dtype == from.dtype && to.device_type == from.device_type && to.device_index == from.device_index &&
              to.layout == from.layout && to.is_conj == from.is_conj && to.is_neg == from.is_neg &&
              to.storage_offset == from.storage_offset;
  if (!same || to.is_inference || from.is_inference || !aten::is_exact_tensor_type(to.type) ||
      !aten::is_exact_tensor_type(from.type))
    cannot(Reason::MutationUnsupported, "Tensor.data set to a tensor of another sort");
  if (is_own_data(trace, tensor, data)) return;  // nothing changes, neither versions nor gradients
  trace.call_in_replay(setter, {tensor, data});
  trace.scope().close(tensor);
}

void register_torch_leaves() {
  add_rows({{of_torch::TensorBaseRequiresGrad, &requires_grad_}});
  add_rows("torch.nn", {{"Parameter", &make_parameter}});
}

}  // namespace gramme::builtins
