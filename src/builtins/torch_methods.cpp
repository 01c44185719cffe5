// Methods of tensors that are answered from the record, stand in the graph in another form, or end the segment. All
// other methods in C stand in the graph under their name.
#include <algorithm>
#include <array>

#include "base/once.h"
#include "builtins/torch_support.h"

namespace gramme::builtins {

using namespace value;

namespace {

// ---- sizes

/// The dim-th of sizes or strides; a dim out of range is left to the real call, which raises.
Value* at_dim(Trace& trace, const std::vector<int64_t>& values, Value* dim, const char* method) {
  PyObject* number = trace.constant_of(dim);
  if (!number || !PyLong_CheckExact(number)) cannot(Reason::ArgumentKind, method);
  int64_t n = static_cast<int64_t>(values.size()), at = PyLong_AsLongLong(number);
  if (at < -n || at >= n) cannot(Reason::OperatorFailed, method);
  return trace.integer(values[at < 0 ? at + n : at]);
}

Value* size(Trace& trace, const Args& args) {
  auto [self, dim] = bind(args, 1, {"self", "dim"});
  Tensor* tensor = self_tensor(trace, args, "size");
  (void)self;
  if (is_none(trace, dim)) return size_of(trace, *tensor->record);
  return at_dim(trace, tensor->record->sizes, dim, "Tensor.size");
}

Value* stride(Trace& trace, const Args& args) {
  auto [self, dim] = bind(args, 1, {"self", "dim"});
  Tensor* tensor = self_tensor(trace, args, "stride");
  (void)self;
  if (!is_none(trace, dim)) return at_dim(trace, tensor->record->strides, dim, "Tensor.stride");
  std::vector<Value*> strides;
  for (int64_t stride : tensor->record->strides) strides.push_back(trace.integer(stride));
  return trace.tuple(std::move(strides));
}

Value* length(Trace& trace, const Args& args) {
  Tensor* tensor = self_tensor(trace, args, "__len__");
  protocol::refuse_subclass(tensor, "len()");
  if (tensor->record->sizes.empty()) protocol::raise(trace, PyExc_TypeError, "len() of a 0-d tensor");
  return trace.integer(tensor->record->sizes[0]);
}

/// A method without arguments that the record answers.
template <Text name, class Answer>
Value* answer(Trace& trace, const Args& args, Answer&& of_record) {
  auto [self] = positional<1>(args, 1);
  (void)self;
  return of_record(*self_tensor(trace, args, name.text)->record);
}

Value* numel(Trace& trace, const Args& args) {
  return answer<"numel">(trace, args, [&](const meta::Record& record) { return trace.integer(record.numel()); });
}
Value* dim(Trace& trace, const Args& args) {
  return answer<"dim">(trace, args, [&](const meta::Record& record) { return trace.integer(record.dim()); });
}
Value* is_floating_point(Trace& trace, const Args& args) {
  return answer<"is_floating_point">(
      trace, args, [&](const meta::Record& record) { return trace.boolean(meta::is_floating_point(record)); });
}
Value* is_complex(Trace& trace, const Args& args) {
  return answer<"is_complex">(trace, args,
                              [&](const meta::Record& record) { return trace.boolean(meta::is_complex(record)); });
}
Value* is_inference(Trace& trace, const Args& args) {
  return answer<"is_inference">(trace, args,
                                [&](const meta::Record& record) { return trace.boolean(record.is_inference); });
}
Value* is_conj(Trace& trace, const Args& args) {
  return answer<"is_conj">(trace, args, [&](const meta::Record& record) { return trace.boolean(record.is_conj); });
}
Value* is_neg(Trace& trace, const Args& args) {
  return answer<"is_neg">(trace, args, [&](const meta::Record& record) { return trace.boolean(record.is_neg); });
}

/// x.element_size(), x.is_signed(): what the dtype says.
template <Text method, Text attribute>
Value* of_dtype(Trace& trace, const Args& args) {
  return answer<method>(trace, args, [&](const meta::Record& record) {
    return trace.constant(take(PyObject_GetAttrString(meta::dtype_object(record), attribute.text)));
  });
}

Value* get_device(Trace& trace, const Args& args) {
  return answer<"get_device">(trace, args, [&](const meta::Record& record) {
    Owned<> index = take(PyObject_GetAttrString(meta::device_object(record), "index"));
    return index.get() == Py_None ? trace.integer(-1) : trace.constant(index);
  });
}

// ---- memory formats

bool contiguous(const meta::Record& record) {
  if (record.numel() == 0) return true;
  int64_t expected = 1;
  for (size_t d = record.sizes.size(); d-- > 0;) {
    if (record.sizes[d] == 1) continue;
    if (record.strides[d] != expected) return false;
    expected *= record.sizes[d];
  }
  return true;
}

/// Channels innermost, then the space dimensions from the last to the first, then the batch; c10 counts empty tensors
/// too.
template <size_t N>
bool channels_last(const meta::Record& record) {
  if (record.sizes.size() != N) return false;
  int64_t expected = 1;
  for (size_t i = 0; i < N; ++i) {
    size_t d = i == 0 ? 1 : i == N - 1 ? 0 : N - i;
    if (record.sizes[d] == 1) continue;
    if (record.strides[d] != expected) return false;
    expected *= record.sizes[d];
  }
  return true;
}

Value* is_contiguous(Trace& trace, const Args& args) {
  PyObject* const plain = once([] { return real("torch", "contiguous_format"); });
  PyObject* const last_2d = once([] { return real("torch", "channels_last"); });
  PyObject* const last_3d = once([] { return real("torch", "channels_last_3d"); });
  if (args.positional > 1) cannot(Reason::ArgumentKind, "Tensor.is_contiguous");
  const meta::Record& record = *self_tensor(trace, args, "is_contiguous")->record;
  Value* argument = args.keyword("memory_format");
  if (args.keywords > (argument ? 1u : 0u)) cannot(Reason::ArgumentKind, "Tensor.is_contiguous");
  PyObject* format = argument ? trace.constant_of(argument) : plain;
  if (record.strides.size() != record.sizes.size()) cannot(Reason::CallUnknown, "Tensor.is_contiguous without strides");
  if (format == plain) return trace.boolean(contiguous(record));
  if (format == last_2d) return trace.boolean(channels_last<4>(record));
  if (format == last_3d) return trace.boolean(channels_last<5>(record));
  cannot(Reason::ArgumentKind, "Tensor.is_contiguous of this memory format");
}

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
  self_tensor(trace, args, "new");
  auto* tuple = args.positional == 2 ? trace.see_as<Tuple>(args[1]) : nullptr;
  if ((tuple && tuple->type == size_type) || all_ints(trace, args, 1)) return trace.emit_method(empty, args);
  cannot(Reason::CallUnknown, "Tensor.new with data");
}

/// x.new_tensor(data): torch.tensor(data, dtype=x.dtype, device=x.device).
Value* new_tensor(Trace& trace, const Args& args) {
  PyObject* const tensor = once([] { return real("torch", "tensor"); });
  static PyObject* const dtype = intern("dtype");
  static PyObject* const device = intern("device");
  const meta::Record& record = *self_tensor(trace, args, "new_tensor")->record;
  if (args.positional != 2 || args.keyword("layout")) cannot(Reason::ArgumentKind, "Tensor.new_tensor");
  std::vector<Value*> values(args.values + 1, args.values + args.positional + args.keywords);
  std::vector<PyObject*> names(args.names, args.names + args.keywords);
  if (!args.keyword(dtype)) names.push_back(dtype), values.push_back(trace.constant(meta::dtype_object(record)));
  if (!args.keyword(device)) names.push_back(device), values.push_back(trace.constant(meta::device_object(record)));
  return protocol::call(trace, trace.pinned(tensor), Args{values.data(), 1, names.data(), names.size()});
}

/// x.type(): its name; x.type(torch.FloatTensor): the class stands in the graph as its name.
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

/// An operator of the operator module: x.__getitem__(key) and its kind.
template <Text name, size_t count>
Value* as_operator(Trace& trace, const Args& args) {
  PyObject* const function = once([] { return real("_operator", name.text); });
  self_tensor(trace, args, name.text);
  if (args.positional != count || args.keywords) cannot(Reason::ArgumentKind, name.text);
  return trace.emit(function, args);
}

/// Of an input it would be undone by no graph: the real tensor's views decide whether it is allowed.
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
  return trace.emit_method(method, args);
}

Value* uniform_(Trace& trace, const Args& args) {
  static PyObject* const method = intern("uniform_");
  if (args.keyword("from")) cannot(Reason::CallUnknown, "Tensor.uniform_ with the keyword from");
  return trace.emit_method(method, args);
}

// ---- tables

void register_answers(PyTypeObject* base) {
  add_rows(base, {{"size", &size},
                  {"stride", &stride},
                  {"numel", &numel},
                  {"nelement", &numel},
                  {"dim", &dim},
                  {"ndimension", &dim},
                  {"is_floating_point", &is_floating_point},
                  {"is_complex", &is_complex},
                  {"is_conj", &is_conj},
                  {"is_inference", &is_inference},
                  {"is_neg", &is_neg},
                  {"is_signed", &of_dtype<"is_signed", "is_signed">},
                  {"element_size", &of_dtype<"element_size", "itemsize">},
                  {"get_device", &get_device},
                  {"is_contiguous", &is_contiguous},
                  {"__len__", &length}});
}

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
                  {"__abs__", &as_operator<"abs", 1>}});
}

/// What turns data into Python values, or shows where it is stored.
void register_refused(PyTypeObject* base) {
  constexpr Reason data = Reason::DataDependentValue, unknown = Reason::CallUnknown,
                   write = Reason::MutationUnsupported;
  add_rows(base, {{"item", &refuse<data, "Tensor.item">},
                  {"tolist", &refuse<data, "Tensor.tolist">},
                  {"numpy", &refuse<data, "Tensor.numpy">},
                  {"__bool__", &refuse<Reason::DataDependentBranch, "Tensor.__bool__">},
                  {"__nonzero__", &refuse<Reason::DataDependentBranch, "Tensor.__nonzero__">},
                  {"is_nonzero", &refuse<Reason::DataDependentBranch, "Tensor.is_nonzero">},
                  {"__int__", &refuse<data, "Tensor.__int__">},
                  {"__long__", &refuse<data, "Tensor.__long__">},
                  {"__float__", &refuse<data, "Tensor.__float__">},
                  {"__complex__", &refuse<data, "Tensor.__complex__">},
                  {"__index__", &refuse<data, "Tensor.__index__">},
                  {"apply_", &refuse<data, "Tensor.apply_">},
                  {"map_", &refuse<data, "Tensor.map_">},
                  {"map2_", &refuse<data, "Tensor.map2_">},
                  {"data_ptr", &refuse<unknown, "Tensor.data_ptr">},
                  {"const_data_ptr", &refuse<unknown, "Tensor.const_data_ptr">},
                  {"storage_offset", &refuse<unknown, "Tensor.storage_offset">},
                  {"untyped_storage", &refuse<unknown, "Tensor.untyped_storage">},
                  {"_typed_storage", &refuse<unknown, "Tensor._typed_storage">},
                  {"is_set_to", &refuse<unknown, "Tensor.is_set_to">},
                  {"is_pinned", &refuse<unknown, "Tensor.is_pinned">},
                  {"is_coalesced", &refuse<unknown, "Tensor.is_coalesced">},
                  {"_is_view", &refuse<unknown, "Tensor._is_view">},
                  {"_use_count", &refuse<unknown, "Tensor._use_count">},
                  {"_fix_weakref", &refuse<unknown, "Tensor._fix_weakref">},
                  {"_view_func", &refuse<unknown, "Tensor._view_func">},
                  {"_view_func_unsafe", &refuse<unknown, "Tensor._view_func_unsafe">},
                  {"_rev_view_func_unsafe", &refuse<unknown, "Tensor._rev_view_func_unsafe">},
                  {"record_stream", &refuse<unknown, "Tensor.record_stream">},
                  {"as_subclass", &refuse<unknown, "Tensor.as_subclass">},
                  {"_make_subclass", &refuse<unknown, "Tensor._make_subclass">},
                  {"_make_wrapper_subclass", &refuse<unknown, "Tensor._make_wrapper_subclass">},
                  {"random_", &refuse<unknown, "Tensor.random_">},
                  {"resize_", &refuse<write, "Tensor.resize_">},
                  {"resize_as_", &refuse<write, "Tensor.resize_as_">},
                  {"resize_as_sparse_", &refuse<write, "Tensor.resize_as_sparse_">},
                  {"sparse_resize_", &refuse<write, "Tensor.sparse_resize_">},
                  {"sparse_resize_and_clear_", &refuse<write, "Tensor.sparse_resize_and_clear_">},
                  {"__delitem__", &refuse<write, "Tensor.__delitem__">}});
}

/// Methods written in Python. The names below stand in the graph as Dynamo has them; their bodies would break it up.
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
                    {"__rmatmul__", &as_method<"__rmatmul__">},
                    {"__len__", &length}});
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

Value* type_text(Trace& trace, const meta::Record& record) {
  static constexpr std::pair<const char*, const char*> kNames[] = {
      {"float32", "Float"}, {"float64", "Double"}, {"float16", "Half"}, {"bfloat16", "BFloat16"}, {"uint8", "Byte"},
      {"int8", "Char"},     {"int16", "Short"},    {"int32", "Int"},    {"int64", "Long"},        {"bool", "Bool"}};
  const auto* const dtypes = once([] {
    return new std::array<PyObject*, std::size(kNames)>([] {
      std::array<PyObject*, std::size(kNames)> objects;
      for (size_t i = 0; i < objects.size(); ++i) objects[i] = real("torch", kNames[i].first);
      return objects;
    }());
  });
  auto found = std::find(dtypes->begin(), dtypes->end(), meta::dtype_object(record));
  if (found == dtypes->end()) cannot(Reason::CallUnknown, "Tensor.type() of this dtype");
  Owned<> device = take(PyObject_GetAttrString(meta::device_object(record), "type"));
  std::string where = PyUnicode_AsUTF8(device.get());
  return trace.text("torch." + (where == "cpu" ? "" : where + ".") + kNames[found - dtypes->begin()].second + "Tensor");
}

void register_torch_methods() {
  auto* base = reinterpret_cast<PyTypeObject*>(real("torch._C", "TensorBase"));
  register_answers(base);
  register_forms(base);
  register_refused(base);
  register_python_methods(reinterpret_cast<PyTypeObject*>(real("torch", "Tensor")));
}

}  // namespace gramme::builtins
