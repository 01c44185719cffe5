// Tensor methods that become different graph nodes or end the segment. All other C methods become nodes of their own
// name, except those in torch_metadata.cpp.
#include "base/once.h"
#include "builtins/torch_support.h"
#include "torch/names.h"

namespace gramme::builtins {

using namespace value;

namespace {

// ---- calls that Dynamo writes in another form

bool all_ints(Trace& trace, const Args& args, size_t from) {
  if (args.positional <= from) return false;
  for (size_t i = from; i < args.positional; ++i) {
    Value* seen = trace.see(args[i]);
    if (seen->kind != Kind::Constant || !PyLong_CheckExact(seen->object)) return false;
  }
  return true;
}

/// x.new(sizes): x.new_empty(sizes); the graph has no torch.Size, and new() of a tuple means data.
Value* make_new(Trace& trace, const Args& args) {
  static PyObject* const empty = intern("new_empty");
  auto* const size_type = once([] { return reinterpret_cast<PyTypeObject*>(real("torch", "Size")); });
  const meta::Record& record = *self_tensor(trace, args, "new")->record;
  if (record.is_conj || record.is_neg) cannot(Reason::ArgumentKind, "Tensor.new of a view that the method refuses");
  auto* tuple = args.positional == 2 ? trace.see_as<Tuple>(args[1]) : nullptr;
  if ((tuple && tuple->type == size_type) || all_ints(trace, args, 1)) return trace.emit_method(empty, args);
  const Args data{args.values + 1, args.positional - 1, nullptr, 0};
  protocol::refuse_subclass(trace.see_as<Tensor>(args[0]), "Tensor.new");  // it gets the class
  if (args.keywords) cannot(Reason::CallUnknown, "Tensor.new with data");
  return tensor_of(trace, data, meta::dtype_object(record), meta::device_object(record),
                   !meta::is_floating_point(record));
}

/// x.new_tensor(data): torch.tensor(data, dtype=x.dtype, device=x.device).
Value* new_tensor(Trace& trace, const Args& args) {
  PyObject* const tensor = once([] { return real("torch", "tensor"); });
  static PyObject* const dtype = intern("dtype");
  static PyObject* const device = intern("device");
  const Tensor* self = self_tensor(trace, args, "new_tensor");
  protocol::refuse_subclass(self, "Tensor.new_tensor");  // it gets the class
  const meta::Record& record = *self->record;
  if (args.positional != 2 || args.keyword("layout")) cannot(Reason::ArgumentKind, "Tensor.new_tensor");
  std::vector<Value*> values(args.values + 1, args.values + args.positional + args.keywords);
  std::vector<PyObject*> names(args.names, args.names + args.keywords);
  if (!args.keyword(dtype)) names.push_back(dtype), values.push_back(trace.constant(meta::dtype_object(record)));
  if (!args.keyword(device)) names.push_back(device), values.push_back(trace.constant(meta::device_object(record)));
  return protocol::call(trace, trace.pinned(tensor), Args{values.data(), 1, names.data(), names.size()});
}

/// x.type(): the type's name; x.type(torch.FloatTensor): the graph has the class's name.
Value* type(Trace& trace, const Args& args) {
  static PyObject* const method = intern("type");
  PyObject* const tensor_type = once([] { return reinterpret_cast<PyObject*>(Py_TYPE(real("torch", "FloatTensor"))); });
  Tensor* self = self_tensor(trace, args, "type");
  Value* dtype = args.positional > 1 ? args[1] : args.keyword("dtype");
  if (!dtype) return type_text(trace, *self->record);
  Value* seen = trace.see(dtype);
  bool legacy = seen->object && reinterpret_cast<PyObject*>(Py_TYPE(seen->object)) == tensor_type;
  if (!legacy || args.positional < 2) return trace.emit_method(method, args);
  Owned<> module = take(PyObject_GetAttrString(seen->object, "__module__"));
  Owned<> name = take(PyObject_GetAttrString(seen->object, "__name__"));
  std::vector<Value*> values(args.values, args.values + args.positional + args.keywords);
  values[1] = trace.constant(take(PyUnicode_FromFormat("%U.%U", module.get(), name.get())));
  return trace.emit_method(method, Args{values.data(), args.positional, args.names, args.keywords});
}

/// A special method such as x.__getitem__(key), as the operator, which also asks the class.
template <Text name, size_t count>
Value* as_operator(Trace& trace, const Args& args) {
  PyObject* const function = once([] { return real("_operator", name.text); });
  PyObject* const method = once([] { return intern((std::string("__") + name.text + "__").c_str()); });
  protocol::refuse_replaced(trace, {self_tensor(trace, args, name.text)}, {method});
  if (args.positional != count || args.keywords) cannot(Reason::ArgumentKind, name.text);
  return trace.emit(function, args);
}

/// x.detach_(): ends the segment for inputs, because it cannot be undone and the real tensor's views decide whether it
/// is allowed.
Value* detach_(Trace& trace, const Args& args) {
  static PyObject* const method = intern("detach_");
  Tensor* tensor = self_tensor(trace, args, "detach_");
  if (tensor->existing() || !tensor->views.empty()) cannot(Reason::MutationUnsupported, "Tensor.detach_");
  return trace.emit_method(method, args);
}

/// x.set_(source) is in the graph; its other forms are not.
Value* set_(Trace& trace, const Args& args) {
  static PyObject* const method = intern("set_");
  if (args.positional != 2 || args.keywords || !trace.see_as<Tensor>(args[1]))
    cannot(Reason::MutationUnsupported, "Tensor.set_ of a storage");
  trace.state<Storages>().replaced = true;
  return trace.emit_method(method, args);
}

Value* uniform_(Trace& trace, const Args& args) {
  static PyObject* const method = intern("uniform_");
  if (args.keyword("from")) cannot(Reason::CallUnknown, "Tensor.uniform_ with the keyword from");
  return trace.emit_method(method, args);
}

// ---- data as Python values, if graphs may have it

Value* item(Trace& trace, const Args& args) {
  Tensor* self = self_tensor(trace, args, "item");
  if (args.positional != 1 || args.keywords) cannot(Reason::ArgumentKind, "Tensor.item");
  return protocol::item(trace, self, "Tensor.item");
}

Value* nested_items(Trace& trace, Tensor* tensor) {
  protocol::refuse_jagged(*tensor->record, "Tensor.tolist()");
  PyObject* const getitem = once([] { return real("_operator", "getitem"); });
  if (tensor->record->sizes.empty()) return protocol::item(trace, tensor, "Tensor.tolist");
  std::vector<Value*> items;
  for (int64_t i = 0; i < trace.fixed(tensor->record->sizes[0]); ++i)
    items.push_back(nested_items(trace, trace.see_as<Tensor>(trace.emit(getitem, {tensor, trace.integer(i)}))));
  return trace.list(std::move(items));
}

Value* tolist(Trace& trace, const Args& args) {
  Tensor* self = self_tensor(trace, args, "tolist");
  if (!trace.data.scalars) cannot(Reason::DataDependentValue, "Tensor.tolist");
  return nested_items(trace, self);
}

/// x.__int__(): int(x).
template <Text name, PyTypeObject& type>
Value* as_number(Trace& trace, const Args& args) {
  Tensor* self = self_tensor(trace, args, name.text);
  return protocol::call(trace, trace.pinned(reinterpret_cast<PyObject*>(&type)), {self});
}

// ---- tables

void register_forms(PyTypeObject* base) {
  add_rows(base, {{"new", &make_new},
                  {"new_tensor", &new_tensor},
                  {"type", &type},
                  {"detach_", &detach_},
                  {"set_", &set_},
                  {"uniform_", &uniform_},
                  {"__getitem__", &as_operator<"getitem", 2>},
                  {"__setitem__", &as_operator<"setitem", 3>},
                  {"__neg__", &as_operator<"neg", 1>},
                  {"__pos__", &as_operator<"pos", 1>},
                  {"__abs__", &as_operator<"abs", 1>},
                  {"item", &item},
                  {"tolist", &tolist}});
}

/// Methods that turn data into Python values, or expose memory: they end the segment.
void register_refused(PyTypeObject* base) {
  constexpr Reason data = Reason::DataDependentValue, unknown = Reason::CallUnknown,
                   write = Reason::MutationUnsupported;
  add_rows(base, {{"__bool__", &refuse<Reason::DataDependentBranch, "Tensor.__bool__">},
                  {"__nonzero__", &refuse<Reason::DataDependentBranch, "Tensor.__nonzero__">},
                  {"is_nonzero", &refuse<Reason::DataDependentBranch, "Tensor.is_nonzero">},
                  {"__int__", &as_number<"__int__", PyLong_Type>},
                  {"__long__", &refuse<data, "Tensor.__long__">},
                  {"__float__", &as_number<"__float__", PyFloat_Type>},
                  {"__complex__", &refuse<data, "Tensor.__complex__">},
                  {"__index__", &refuse<data, "Tensor.__index__">},
                  {"apply_", &refuse<data, "Tensor.apply_">},
                  {"map_", &refuse<data, "Tensor.map_">},
                  {"map2_", &refuse<data, "Tensor.map2_">},
                  {"data_ptr", &refuse<unknown, "Tensor.data_ptr">},
                  {"const_data_ptr", &refuse<unknown, "Tensor.const_data_ptr">},
                  {"untyped_storage", &refuse<unknown, "Tensor.untyped_storage">},
                  {of_torch::text(of_torch::TypedStorage), &refuse<unknown, "Tensor._typed_storage">},
                  {"is_set_to", &refuse<unknown, "Tensor.is_set_to">},
                  {"is_pinned", &refuse<unknown, "Tensor.is_pinned">},
                  {"is_coalesced", &refuse<unknown, "Tensor.is_coalesced">},
                  {of_torch::text(of_torch::IsView), &refuse<unknown, "Tensor._is_view">},
                  {of_torch::text(of_torch::UseCount), &refuse<unknown, "Tensor._use_count">},
                  {of_torch::text(of_torch::FixWeakref), &refuse<unknown, "Tensor._fix_weakref">},
                  {of_torch::text(of_torch::ViewFunc), &refuse<unknown, "Tensor._view_func">},
                  {of_torch::text(of_torch::ViewFuncUnsafe), &refuse<unknown, "Tensor._view_func_unsafe">},
                  {of_torch::text(of_torch::RevViewFuncUnsafe), &refuse<unknown, "Tensor._rev_view_func_unsafe">},
                  {"record_stream", &refuse<unknown, "Tensor.record_stream">},
                  {of_torch::text(of_torch::MakeWrapperSubclass), &refuse<unknown, "Tensor._make_wrapper_subclass">},
                  {"random_", &refuse<unknown, "Tensor.random_">},
                  {"resize_", &refuse<write, "Tensor.resize_">},
                  {"resize_as_", &refuse<write, "Tensor.resize_as_">},
                  {"resize_as_sparse_", &refuse<write, "Tensor.resize_as_sparse_">},
                  {"sparse_resize_", &refuse<write, "Tensor.sparse_resize_">},
                  {"sparse_resize_and_clear_", &refuse<write, "Tensor.sparse_resize_and_clear_">},
                  {"__delitem__", &refuse<write, "Tensor.__delitem__">}});
}

/// Methods written in Python that become nodes, as in Dynamo; tracing their bodies would break the graph.
void register_python_methods(PyTypeObject* tensor) {
  add_rows(tensor, {{"norm", &as_method<"norm">},
                    {"split", &as_method<"split">},
                    {"unflatten", &as_method<"unflatten">},
                    {"stft", &as_method<"stft">},
                    {"istft", &as_method<"istft">},
                    {"lu", &as_method<"lu">},
                    {"unique", &as_method<"unique">},
                    {"unique_consecutive", &as_method<"unique_consecutive">},
                    {"to_sparse_coo", &as_method<"to_sparse_coo">},
                    {"dim_order", &as_method<"dim_order">},
                    {"__reversed__", &as_method<"__reversed__">},
                    {"__rsub__", &as_method<"__rsub__">},
                    {"__rdiv__", &as_method<"__rdiv__">},
                    {"__rtruediv__", &as_method<"__rtruediv__">},
                    {"__pow__", &as_method<"__pow__">},
                    {"__ipow__", &as_method<"__ipow__">},
                    {"__rpow__", &as_method<"__rpow__">},
                    {"__rmod__", &as_method<"__rmod__">},
                    {"__floordiv__", &as_method<"__floordiv__">},
                    {"__rfloordiv__", &as_method<"__rfloordiv__">},
                    {"__rlshift__", &as_method<"__rlshift__">},
                    {"__rrshift__", &as_method<"__rrshift__">},
                    {"__rmatmul__", &as_method<"__rmatmul__">}});
  constexpr Reason data = Reason::DataDependentValue, unknown = Reason::CallUnknown;
  add_rows(tensor, {{"__repr__", &refuse<data, "Tensor.__repr__">},
                    {"__format__", &refuse<data, "Tensor.__format__">},
                    {"__array__", &refuse<data, "Tensor.__array__">},
                    {"__array_wrap__", &refuse<data, "Tensor.__array_wrap__">},
                    {"__contains__", &refuse<data, "Tensor.__contains__">},
                    {"__deepcopy__", &refuse<unknown, "Tensor.__deepcopy__">},
                    {"__reduce_ex__", &refuse<unknown, "Tensor.__reduce_ex__">},
                    {"__setstate__", &refuse<unknown, "Tensor.__setstate__">},
                    {"__dlpack__", &refuse<unknown, "Tensor.__dlpack__">},
                    {"__dir__", &refuse<unknown, "Tensor.__dir__">},
                    {"backward", &refuse<unknown, "Tensor.backward">},
                    {"share_memory_", &refuse<unknown, "Tensor.share_memory_">},
                    {"is_shared", &refuse<unknown, "Tensor.is_shared">},
                    {"storage", &refuse<unknown, "Tensor.storage">},
                    {"storage_type", &refuse<unknown, "Tensor.storage_type">},
                    {"module_load", &refuse<unknown, "Tensor.module_load">},
                    {"resize", &refuse<unknown, "Tensor.resize">},
                    {"resize_as", &refuse<unknown, "Tensor.resize_as">}});
}

}  // namespace

void register_torch_methods() {
  auto* base = of_torch::type(of_torch::TensorBase);
  register_forms(base);
  register_refused(base);
  register_python_methods(reinterpret_cast<PyTypeObject*>(real("torch", "Tensor")));
}

}  // namespace gramme::builtins
