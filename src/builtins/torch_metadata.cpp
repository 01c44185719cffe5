// Tensor methods answered from the description (record): sizes, dtypes, memory formats.
#include <algorithm>
#include <array>

#include "base/once.h"
#include "base/text.h"
#include "builtins/torch_support.h"
#include "torch/names.h"
#include "trace/wrappers.h"
#include "value/views.h"

namespace gramme::builtins {

using namespace value;

namespace {

// ---- sizes

/// The dim-th size or stride; if dim is out of range, the real call raises.
Value* at_dim(Trace& trace, const std::vector<shape::SymInt>& values, Value* dim, const char* method) {
  PyObject* number = trace.constant_of(dim);
  if (!number || !PyLong_CheckExact(number)) cannot(Reason::ArgumentKind, method);
  int64_t n = static_cast<int64_t>(values.size()), at = PyLong_AsLongLong(number);
  if (at < -n || at >= n) cannot(Reason::OperatorFailed, method);
  const shape::SymInt found = values[at < 0 ? at + n : at];
  if (found.is_any()) cannot(Reason::TensorSubclass, std::string(method) + " of a ragged dimension");
  return trace.integer(found);
}

Value* size(Trace& trace, const Args& args) {
  auto [self, dim] = bind(args, 1, {"self", "dim"});
  Tensor* tensor = self_tensor(trace, args, "size");
  (void)self;
  if (is_none(trace, dim)) {
    trace.scope().note_sizes(tensor, tensor->record->sizes.size());
    return size_of(trace, *tensor->record);
  }
  if (tensor->record->opaque) return at_dim(trace, trace::sizes_of_jagged(trace, tensor), dim, "Tensor.size");
  Value* found = at_dim(trace, tensor->record->sizes, dim, "Tensor.size");
  if (found->kind == Kind::Number) trace.scope().note_sizes(tensor, 0);
  return found;
}

bool equals(Trace& trace, shape::SymInt a, shape::SymInt b) {
  if (a == b) return true;
  const shape::Expr e = equal(a.expr(), b.expr());
  return e ? trace.decide(e) : trace.fixed(a) == trace.fixed(b);
}

bool is_view_of_input(const Tensor* tensor) { return storage_root(tensor)->existing(); }

/// Ends the segment if strides are uncertain: kernels and fakes differ for results without elements, or with one
/// element in a dimension.
void refuse_unknown_strides(Trace& trace, const Tensor* tensor, int64_t most) {
  const auto& sizes = tensor->record->sizes;
  if (sizes.size() < 2 || is_view_of_input(tensor)) return;
  for (shape::SymInt size : sizes)
    for (int64_t few = 0; few <= most; ++few)
      if (equals(trace, size, few)) cannot(Reason::CallUnknown, "strides of a result of few elements");
}

Value* stride(Trace& trace, const Args& args) {
  auto [self, dim] = bind(args, 1, {"self", "dim"});
  Tensor* tensor = sized_self(trace, args, "stride");
  refuse_of_gradient(trace, "strides");
  if (!meta::is_strided(*tensor->record)) cannot(Reason::AttributeUnknown, "strides of a tensor that has none");
  refuse_unknown_strides(trace, tensor, 1);
  (void)self;
  if (!is_none(trace, dim)) return at_dim(trace, tensor->record->strides, dim, "Tensor.stride");
  std::vector<Value*> strides;
  for (shape::SymInt stride : tensor->record->strides) strides.push_back(trace.integer(stride));
  return trace.tuple(std::move(strides));
}

/// The storage offset of an existing tensor as a symbol, because guards leave it open.
shape::SymInt beginning(Trace& trace, const Tensor* existing) {
  if (!existing->record->storage_offset.is_number()) return existing->record->storage_offset;
  const source::Source* offset = trace.pool->child(existing->source, source::Kind::OffsetOf);
  for (size_t k = 0; k < trace.shapes.assumptions.symbol_count(); ++k) {
    const shape::Expr symbol = shape::symbol(static_cast<int64_t>(k));
    if (trace.shapes.source_of(symbol) == offset) return shape::SymInt(symbol);
  }
  const int64_t now = aten::offset_of(existing->object);
  return shape::SymInt(trace.shapes.add(offset, {0, shape::Range::kNoHigh}, now));
}

Value* storage_offset(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  (void)self;
  const Tensor* tensor = sized_self(trace, args, "storage_offset");
  refuse_of_gradient(trace, "storage_offset()");
  const bool has_one = tensor->record->strides.size() == tensor->record->sizes.size() && !tensor->record->inner;
  if (!has_one || trace.scope().writes().late(tensor) != effects::Late::Free || trace.state<Storages>().replaced)
    cannot(Reason::CallUnknown, "Tensor.storage_offset");
  const Tensor* root = tensor;
  while (!root->existing() && root->base) root = root->base;
  if (!root->existing()) return trace.integer(tensor->record->storage_offset);
  const shape::SymInt begins = beginning(trace, root);
  if (root == tensor && trace.contract.symbols) return trace.integer(begins);
  if (root == tensor || root->record->storage_offset.is_number()) trace.fixed(begins);
  return trace.integer(tensor->record->storage_offset);
}

Value* length(Trace& trace, const Args& args) {
  Tensor* tensor = sized_self(trace, args, "__len__");
  protocol::refuse_torch_function(trace, tensor, "len()");
  if (tensor->record->sizes.empty()) protocol::raise(trace, PyExc_TypeError, "len() of a 0-d tensor");
  return trace.integer(tensor->record->sizes[0]);
}

/// A method without arguments that the record determines.
template <Text name, class Answer>
Value* answer(Trace& trace, const Args& args, Answer&& of_record) {
  auto [self] = positional<1>(args, 1);
  (void)self;
  return of_record(*self_tensor(trace, args, name.text)->record);
}

Value* numel(Trace& trace, const Args& args) {
  return answer<"numel">(trace, args, [&](const meta::Record& record) { return element_count(trace, record); });
}
Value* dim(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  (void)self;
  return dim_of(trace, self_tensor(trace, args, "dim"));
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
  refuse_of_gradient(trace, "is_inference()");
  return answer<"is_inference">(trace, args,
                                [&](const meta::Record& record) { return trace.boolean(record.is_inference); });
}
Value* is_conj(Trace& trace, const Args& args) {
  refuse_of_gradient(trace, "is_conj()");
  return answer<"is_conj">(trace, args, [&](const meta::Record& record) { return trace.boolean(record.is_conj); });
}
Value* is_neg(Trace& trace, const Args& args) {
  refuse_of_gradient(trace, "is_neg()");
  return answer<"is_neg">(trace, args, [&](const meta::Record& record) { return trace.boolean(record.is_neg); });
}

/// x.element_size(), x.is_signed(): properties of the dtype.
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

/// True if the strides are those of a dense tensor with its dimensions in this order, innermost first.
bool dense(Trace& trace, const meta::Record& record, const std::vector<size_t>& order) {
  shape::SymInt expected = 1;
  for (size_t d : order) {
    if (equals(trace, record.sizes[d], 1)) continue;
    if (!equals(trace, record.strides[d], expected)) return false;
    const std::optional<shape::SymInt> next = product(expected, record.sizes[d]);
    expected = next ? *next : shape::SymInt(trace.fixed(expected) * trace.fixed(record.sizes[d]));
  }
  return true;
}

/// True if the strides are contiguous for all sizes.
bool surely_contiguous(const meta::Record& record) {
  std::optional<shape::SymInt> expected = 1;
  for (size_t d = record.sizes.size(); d-- > 0;) {
    if (!expected) return false;
    if (record.sizes[d] == shape::SymInt(1)) continue;
    const shape::Expr at_least_one = maximum(expected->expr(), shape::constant(1));
    if (record.strides[d] != *expected && record.strides[d].expr() != at_least_one) return false;
    expected = product(*expected, record.sizes[d]);
  }
  return true;
}

bool contiguous(Trace& trace, const meta::Record& record) {
  if (record.symbolic && surely_contiguous(record)) return true;
  for (shape::SymInt size : record.sizes)
    if (equals(trace, size, 0)) return true;
  std::vector<size_t> order;
  for (size_t d = record.sizes.size(); d-- > 0;) order.push_back(d);
  return dense(trace, record, order);
}

/// Channels innermost, then the space dimensions from the last to the first, then the batch; c10 counts empty tensors
/// too.
template <size_t N>
bool channels_last(Trace& trace, const meta::Record& record) {
  if (record.sizes.size() != N) return false;
  std::vector<size_t> order{1};
  for (size_t d = N - 1; d > 1; --d) order.push_back(d);
  order.push_back(0);
  return dense(trace, record, order);
}

Value* is_contiguous(Trace& trace, const Args& args) {
  PyObject* const plain = once([] { return real("torch", "contiguous_format"); });
  PyObject* const last_2d = once([] { return real("torch", "channels_last"); });
  PyObject* const last_3d = once([] { return real("torch", "channels_last_3d"); });
  if (args.positional > 1) cannot(Reason::ArgumentKind, "Tensor.is_contiguous");
  const Tensor* tensor = sized_self(trace, args, "is_contiguous");
  refuse_of_gradient(trace, "is_contiguous()");
  const meta::Record& record = *tensor->record;
  Value* argument = args.keyword("memory_format");
  if (args.keywords > (argument ? 1u : 0u)) cannot(Reason::ArgumentKind, "Tensor.is_contiguous");
  PyObject* format = argument ? trace.constant_of(argument) : plain;
  if (record.strides.size() != record.sizes.size()) cannot(Reason::CallUnknown, "Tensor.is_contiguous without strides");
  if (format == plain) return trace.boolean(contiguous(trace, record));
  refuse_unknown_strides(trace, tensor, 0);
  if (format == last_2d) return trace.boolean(channels_last<4>(trace, record));
  if (format == last_3d) return trace.boolean(channels_last<5>(trace, record));
  cannot(Reason::ArgumentKind, "Tensor.is_contiguous of this memory format");
}

}  // namespace

bool same_numbers(Trace& trace, const std::vector<shape::SymInt>& a, const std::vector<shape::SymInt>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](shape::SymInt x, shape::SymInt y) { return equals(trace, x, y); });
}

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
  std::string where = utf8_of(device.get());
  return trace.text("torch." + (where == "cpu" ? "" : where + ".") + kNames[found - dtypes->begin()].second + "Tensor");
}

void register_torch_metadata() {
  auto* base = of_torch::type(of_torch::TensorBase);
  add_rows(base, {{"size", &size},
                  {"stride", &stride},
                  {"storage_offset", &storage_offset},
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
  add_rows(reinterpret_cast<PyTypeObject*>(real("torch", "Tensor")), {{"__len__", &length}});
}

}  // namespace gramme::builtins
