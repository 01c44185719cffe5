// Distributed tensors (torch.distributed.tensor.DTensor), which are wrappers: their placements, their mesh, and methods
// that redistribute them.
#include "base/text.h"
#include "base/type_dict.h"
#include "builtins/torch_support.h"
#include "builtins/torch_wrappers.h"
#include "cpython/objects.h"
#include "source/leaf_types.h"
#include "torch/names.h"

namespace gramme::builtins {

using namespace value;

namespace {

Tensor* self_of(Trace& trace, const Args& args) {
  auto* self = args.positional ? trace.see_as<Tensor>(args[0]) : nullptr;
  if (!self) cannot(Reason::ArgumentKind, "a method of DTensor called on something else");
  return self;
}

/// Methods of DTensor whose calls are nodes, as in PyTorch's front end: what they do differs from rank to rank, and
/// they have gradients of their own.
template <Text name>
Value* dtensor_method(Trace& trace, Function*, const Args& args) {
  static PyObject* const text = intern(name.text);
  self_of(trace, args);
  return trace.emit_method(text, args);
}

/// Where graphs run as they are, collectives of an earlier operation may still run beside the program, and the local
/// tensor is a wrapper that waits. The graph waits here: what follows knows a plain tensor.
Value* to_local(Trace& trace, Function* function, const Args& args) {
  const bool is_made = likeness_of(trace, self_of(trace, args));
  Value* local = dtensor_method<"to_local">(trace, function, args);
  if (!is_made || !trace.contract.as_is) return local;
  trace.enter_opaque();
  return protocol::call(trace, trace.pinned(of_torch::object(of_torch::WaitTensor)), {local});
}

/// Properties of DTensor by which a program asks for placements and mesh. Of a tensor that an operation made, the fake
/// result tells.
template <Text name>
Value* dtensor_property(Trace& trace, Function* function, const Args& args) {
  PyObject* likeness = likeness_of(trace, self_of(trace, args));
  if (!likeness) return trace.inliner->call(function, args);
  Owned<> told = take(PyObject_GetAttrString(likeness, name.text));
  return PyTuple_Check(told.get()) ? trace.adopt(std::move(told)) : trace.pinned(told.get());
}

/// Placements are immutable and compare by what they say. Their classes in Python derive from types in C, which have
/// all of that.
void register_placements() {
  static constexpr char kModule[] = "torch.distributed.tensor.placement_types";
  static PyObject *const k_equal = intern("__eq__"), *const k_getter = intern("fget");
  PyTypeObject* const placement = of_torch::type(of_torch::PlacementBase);
  for (PyTypeObject* base : {placement, of_torch::type(of_torch::ShardBase), of_torch::type(of_torch::ReplicateBase),
                             of_torch::type(of_torch::PartialBase)}) {
    std::vector<PyObject*> getters;
    PyObject *name, *member;
    for (Py_ssize_t at = 0; PyDict_Next(type_dict(base), &at, &name, &member);) {
      if (Py_IS_TYPE(member, &PyProperty_Type)) {
        Owned<> getter = take(PyObject_GetAttr(member, k_getter));
        if (PyInstanceMethod_Check(getter.get())) getter = share(PyInstanceMethod_GET_FUNCTION(getter.get()));
        protocol::add_pure(getter.get());
        getters.push_back(getter.release());
      } else if (PyInstanceMethod_Check(member) && (name == k_equal || utf8_of(name).starts_with("is_"))) {
        protocol::add_pure(PyInstanceMethod_GET_FUNCTION(member));
      }
    }
    if (base != placement) source::add_leaf_class(base, kModule, std::move(getters));
  }
}

}  // namespace

void register_torch_dtensor() {
  if (!real("torch.distributed", "ProcessGroup")) return;
  register_placements();
  protocol::add_function_model(of_torch::DtensorMesh, &dtensor_property<"device_mesh">);
  protocol::add_function_model(of_torch::DtensorPlacements, &dtensor_property<"placements">);
  protocol::add_function_model(of_torch::DtensorFullTensor, &dtensor_method<"full_tensor">);
  protocol::add_function_model(of_torch::DtensorRedistribute, &dtensor_method<"redistribute">);
  protocol::add_function_model(of_torch::DtensorToLocal, &to_local);
}

}  // namespace gramme::builtins
