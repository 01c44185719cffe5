// torch.distributed. Questions about process groups are answered in the capture. Collectives that write to a tensor
// become functional collectives and a copy, as in PyTorch's front end: only these can stand in a graph, since they take
// the name of a group and return a tensor. What they would do otherwise than the call of the program runs for real.
#include <algorithm>

#include "aten/state.h"
#include "base/once.h"
#include "builtins/torch_support.h"
#include "cpython/objects.h"
#include "torch/names.h"

namespace gramme::builtins {

using namespace value;

namespace {

// ---- process groups

PyTypeObject* group_type() {
  return reinterpret_cast<PyTypeObject*>(once([] { return real("torch.distributed", "ProcessGroup"); }));
}

/// A question whose answer is the same all the group's life: its rank, size and names. The group is guarded by
/// identity.
template <Text name>
Value* of_group(Trace& trace, const Args& args) {
  PyObject* const ask = once([] { return real("torch.distributed", name.text); });
  auto [group] = positional<1>(args, 1);
  PyObject* object = leaf(trace, group);
  if (!PyType_IsSubtype(Py_TYPE(object), group_type())) cannot(Reason::ArgumentKind, name.text);
  return trace.constant(call_real(trace, ask, {object}));
}

/// An attribute of PyTorch's table of the groups: which one is the default, their names, and which of them collect
/// their calls.
Value* of_world(Trace& trace, const char* name) {
  Value* world = trace.pinned(of_torch::object(of_torch::World));
  return protocol::get_attribute(trace, world, take(PyUnicode_InternFromString(name)).get());
}

/// The group of that name, guarded to have it still.
Value* resolve_group(Trace& trace, const Args& args) {
  auto [name] = positional<1>(args, 1);
  PyObject* text = trace.constant_of(name);
  if (!text || !PyUnicode_Check(text)) cannot(Reason::ArgumentKind, "the name of a process group");
  const Owned<> group = Owned<>::steal(PyObject_CallOneArg(of_torch::object(of_torch::ResolveProcessGroup), text));
  if (!group) {
    PyErr_Clear();
    cannot(Reason::CallSkipped, "the name of a process group that does not exist");
  }
  Value* found = trace.pinned(group.get());
  Value* names = of_world(trace, "pg_names");
  if (!protocol::truth(trace, protocol::contains(trace, names, found)))
    cannot(Reason::CallSkipped, "a process group that PyTorch has not named");
  PyObject* known = trace.constant_of(protocol::get_item(trace, names, found));
  if (!known || PyObject_RichCompareBool(known, text, Py_EQ) != 1)
    cannot(Reason::CallSkipped, "a process group of two names");
  return found;
}

// ---- collectives in place

/// One call of a collective in place. Its checks end the segment before the call wherever the functional form would not
/// do the same: gradients pass a collective in place as if it were not there, but are communicated by the functional
/// one; a checkpoint would run it twice.
class Collective {
 public:
  Collective(Trace& trace, const char* name) : trace_(trace), name_(name) {
    if (trace.confinement.any() || trace.scope().modes().in_function_mode()) refuse();
  }

  [[noreturn]] void refuse() const { cannot(Reason::CallSkipped, std::string("torch.distributed.") + name_); }

  Tensor* tensor(Value* value) const {
    auto* tensor = trace_.see_as<Tensor>(value);
    if (!tensor || protocol::asked_for(trace_, tensor) != protocol::Asked::Nobody) refuse();
    const meta::Record& record = *tensor->record;
    if (record.inner || !record.parts.empty() || record.opaque || !meta::is_strided(record) || meta::is_complex(record))
      refuse();
    if (record.is_conj || record.is_neg) refuse();
    if (trace_.scope().requires_grad(tensor) && aten::grad_enabled()) refuse();
    static PyObject* const k_contiguous = intern("is_contiguous");
    if (!protocol::truth(trace_, protocol::call_method(trace_, tensor, k_contiguous, {}))) refuse();
    return tensor;
  }

  /// The tensor by which all_reduce and broadcast write. They leave autograd's version counter alone: a backward that
  /// saved the tensor does not notice them. A graph for compilers has no such write.
  Value* unnoticed(Tensor* tensor) const {
    static PyObject* const k_data = intern("data");
    return trace_.contract.as_is ? protocol::get_attribute(trace_, tensor, k_data) : tensor;
  }

  void same_kind(const Tensor* a, const Tensor* b) const {
    const meta::Record &of_a = *a->record, &of_b = *b->record;
    if (a == b || of_a.dtype != of_b.dtype || of_a.device_type != of_b.device_type ||
        of_a.device_index != of_b.device_index)
      refuse();
  }

  void same_sizes(const std::vector<shape::SymInt>& a, const std::vector<shape::SymInt>& b) const {
    if (!same_numbers(trace_, a, b)) refuse();
  }

  /// The group in which it communicates now: not one to which this process does not belong, and not one that collects
  /// the calls.
  Value* group(Value* given) const {
    Value* group = is_none(trace_, given) ? of_world(trace_, "default_pg") : given;
    PyObject* object = trace_.see(group)->object;
    if (!object || !PyType_IsSubtype(Py_TYPE(object), group_type())) refuse();
    leaf(trace_, group);
    if (protocol::truth(trace_, of_world(trace_, "pg_coalesce_state"))) refuse();
    return group;
  }

  Py_ssize_t size(Value* group) const {
    return PyLong_AsSsize_t(trace_.constant_of(of_group<"ProcessGroup.size">(trace_, Args{&group, 1})));
  }

  void waits(Value* async_op) const {
    if (async_op && trace_.constant_of(async_op) != Py_False) refuse();
  }

  /// The name by which functional collectives know a reduction.
  Value* reduction(Value* op) const {
    if (!op) return trace_.constant(take(PyUnicode_FromString("sum")));
    PyObject* object = trace_.see(op)->object;
    if (!object) refuse();
    Owned<> name = share(PyDict_GetItemWithError(of_torch::object(of_torch::ReduceOpToStr), object));
    if (!name) {
      PyErr_Clear();
      refuse();
    }
    leaf(trace_, op);
    return trace_.constant(std::move(name));
  }

  /// Calls PyTorch's functional form. A segment does not end inside it.
  void run(of_torch::Name function, std::initializer_list<Value*> args) const {
    trace_.enter_opaque();
    protocol::call(trace_, trace_.pinned(of_torch::object(function)), args);
  }

 private:
  Trace& trace_;
  const char* name_;
};

/// The sizes of `count` such tensors, one after the other.
std::vector<shape::SymInt> stacked(const Collective& collective, const meta::Record& one, Py_ssize_t count) {
  std::vector<shape::SymInt> sizes = one.sizes;
  if (sizes.empty()) collective.refuse();
  const auto first = shape::product(sizes[0], shape::SymInt(count));
  if (!first) collective.refuse();
  sizes[0] = *first;
  return sizes;
}

Value* all_reduce(Trace& trace, Function*, const Args& args) {
  auto [given, op, in, async] = bind(args, 1, {"tensor", "op", "group", "async_op"});
  const Collective collective(trace, "all_reduce");
  collective.waits(async);
  Tensor* tensor = collective.tensor(given);
  Value* reduction = collective.reduction(op);
  Value* group = collective.group(in);
  collective.run(of_torch::AllReduceInplace, {collective.unnoticed(tensor), reduction, group});
  return trace.none();
}

Value* all_gather_single(Trace& trace, Function*, const Args& args) {
  auto [out, given, in, async] = bind(args, 2, {"output_tensor", "input_tensor", "group", "async_op"});
  const Collective collective(trace, "all_gather_single");
  collective.waits(async);
  Tensor *output = collective.tensor(out), *input = collective.tensor(given);
  Value* group = collective.group(in);
  collective.same_kind(output, input);
  collective.same_sizes(output->record->sizes, stacked(collective, *input->record, collective.size(group)));
  collective.run(of_torch::AllGatherInplace, {output, input, group});
  return trace.none();
}

Value* reduce_scatter_single(Trace& trace, Function*, const Args& args) {
  auto [out, given, op, in, async] = bind(args, 2, {"output", "input", "op", "group", "async_op"});
  const Collective collective(trace, "reduce_scatter_single");
  collective.waits(async);
  Tensor *output = collective.tensor(out), *input = collective.tensor(given);
  Value* reduction = collective.reduction(op);
  Value* group = collective.group(in);
  collective.same_kind(output, input);
  collective.same_sizes(input->record->sizes, stacked(collective, *output->record, collective.size(group)));
  collective.run(of_torch::ReduceScatterInplace, {output, input, reduction, group});
  return trace.none();
}

/// Without sizes of the parts: equal ones.
Value* all_to_all_single(Trace& trace, Function*, const Args& args) {
  auto [out, given, out_sizes, in_sizes, in, async] =
      bind(args, 2, {"output", "input", "output_split_sizes", "input_split_sizes", "group", "async_op"});
  const Collective collective(trace, "all_to_all_single");
  collective.waits(async);
  if (!is_none(trace, out_sizes) || !is_none(trace, in_sizes)) collective.refuse();
  Tensor *output = collective.tensor(out), *input = collective.tensor(given);
  Value* group = collective.group(in);
  collective.same_kind(output, input);
  collective.same_sizes(output->record->sizes, input->record->sizes);
  const auto& sizes = input->record->sizes;
  if (sizes.empty() || !sizes[0].is_number() || *sizes[0].number() % collective.size(group) != 0) collective.refuse();
  collective.run(of_torch::AllToAllInplace, {output, input, trace.none(), trace.none(), group});
  return trace.none();
}

Value* all_gather(Trace& trace, Function*, const Args& args) {
  auto [outs, given, in, async] = bind(args, 2, {"tensor_list", "tensor", "group", "async_op"});
  const Collective collective(trace, "all_gather");
  collective.waits(async);
  auto* list = trace.see_as<List>(outs);
  if (!list) collective.refuse();
  const Tensor* input = collective.tensor(given);
  Value* group = collective.group(in);
  if (static_cast<Py_ssize_t>(list->items().size()) != collective.size(group)) collective.refuse();
  std::vector<const Tensor*> seen;
  for (Value* item : list->items()) {
    const Tensor* output = collective.tensor(item);
    collective.same_kind(output, input);
    collective.same_sizes(output->record->sizes, input->record->sizes);
    if (std::ranges::find(seen, output) != seen.end()) collective.refuse();
    seen.push_back(output);
  }
  collective.run(of_torch::AllGatherListInplace, {outs, given, group});
  return trace.none();
}

/// In the default group, where a rank is its own number.
Value* broadcast(Trace& trace, Function*, const Args& args) {
  static PyObject* const k_copy = intern("copy_");
  auto [given, src, in, async, group_src] = bind(args, 1, {"tensor", "src", "group", "async_op", "group_src"});
  const Collective collective(trace, "broadcast");
  collective.waits(async);
  if (is_none(trace, src) == is_none(trace, group_src)) collective.refuse();
  Value* from = is_none(trace, src) ? group_src : src;
  PyObject* rank = trace.constant_of(from);
  if (!rank || !PyLong_CheckExact(rank)) collective.refuse();
  Tensor* tensor = collective.tensor(given);
  Value* group = collective.group(in);
  Value* whole = of_world(trace, "default_pg");
  if (trace.see(group)->object != trace.see(whole)->object) collective.refuse();
  leaf(trace, whole);
  const Py_ssize_t number = PyLong_AsSsize_t(rank);
  if (number < 0 || number >= collective.size(group)) {
    PyErr_Clear();
    collective.refuse();
  }
  trace.enter_opaque();
  Value* written = collective.unnoticed(tensor);
  Value* sent =
      protocol::call(trace, trace.pinned(of_torch::object(of_torch::FunctionalBroadcast)), {written, from, group});
  protocol::call_method(trace, written, k_copy, {sent});
  return trace.none();
}

}  // namespace

void register_torch_distributed() {
  add_rows("torch.distributed", {{"is_available", &folded<"torch.distributed", "is_available">},
                                 {"ProcessGroup.rank", &of_group<"ProcessGroup.rank">},
                                 {"ProcessGroup.size", &of_group<"ProcessGroup.size">},
                                 {"ProcessGroup.name", &of_group<"ProcessGroup.name">},
                                 {"ProcessGroup.group_name.fget", &of_group<"ProcessGroup.group_name.fget">},
                                 {"ProcessGroup.group_desc.fget", &of_group<"ProcessGroup.group_desc.fget">}});
  if (!real("torch.distributed", "ProcessGroup")) return;
  add_rows({{of_torch::ResolveProcessGroup, &resolve_group}});
  protocol::add_function_model(of_torch::AllReduce, &all_reduce);
  protocol::add_function_model(of_torch::AllGatherSingle, &all_gather_single);
  protocol::add_function_model(of_torch::ReduceScatterSingle, &reduce_scatter_single);
  protocol::add_function_model(of_torch::AllToAllSingle, &all_to_all_single);
  protocol::add_function_model(of_torch::AllGather, &all_gather);
  protocol::add_function_model(of_torch::Broadcast, &broadcast);
}

}  // namespace gramme::builtins
