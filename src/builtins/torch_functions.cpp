// Functions of torch that become different graph nodes, and conditions that are checked during the capture.
#include <opcode.h>

#include "aten/classes.h"
#include "base/once.h"
#include "builtins/torch_support.h"
#include "protocol/number.h"
#include "torch/names.h"

namespace gramme::builtins {

using namespace value;

namespace {

// ---- checks

/// Checks a condition. If it does not hold, the call runs for real and raises.
void require(Trace& trace, Value* condition, const char* name) {
  Value* seen = trace.see(condition);
  if (auto* number = as<Number>(seen); number && number->expr) {
    const shape::Expr e = number->type == &PyBool_Type ? number->expr : not_equal(number->expr, shape::constant(0));
    if (!e) cannot(Reason::DataDependentBranch, name);
    return trace.scope().assert_true(e);
  } else if (number && number->type == &PyBool_Type && trace.scope().assert_true(number)) {
    return;
  }
  if (seen->kind == Kind::Tensor || seen->kind == Kind::Number) cannot(Reason::DataDependentBranch, name);
  if (trace.constant_of(seen) != Py_True) cannot(Reason::OperatorFailed, name);
}

template <of_torch::Name name, size_t condition>
Value* checked(Trace& trace, const Args& args) {
  Value* value = args.positional > condition ? args[condition] : args.keyword("cond");
  if (!value) value = args.keyword("condition");
  if (!value) cannot(Reason::ArgumentKind, of_torch::spelled(name));
  require(trace, value, of_torch::spelled(name).c_str());
  return trace.none();
}

/// torch._check_is_size(i, message, max=…), under its deprecation wrapper. Its further hints for PyTorch's symbols are
/// implied here.
Value* checked_size(Trace& trace, value::Function*, const Args& args) {
  auto values = bind(args, 1, {"i", "message", "max"});
  const auto at_most = [&](Value* low, Value* high) {
    require(trace, protocol::compare(trace, Py_LE, low, high), "a check that a number is a size");
  };
  at_most(trace.integer(0), values[0]);
  Value* most = values[2] ? trace.see(values[2]) : nullptr;
  if (most && trace.constant_of(most) != Py_None) at_most(values[0], most);
  return trace.none();
}

/// A distribution's lazy property read on its class: a property object. Calls of a segment share one, while eager makes
/// one per call.
Value* shown_property(Trace& trace, const Args& args) {
  PyObject* const type = of_torch::object(of_torch::LazyPropertyAndProperty);
  PyObject* wrapped = args.positional == 1 && !args.keywords ? trace.see(args[0])->object : nullptr;
  if (!wrapped || !PyFunction_Check(wrapped)) cannot(Reason::ArgumentKind, "_lazy_property_and_property()");
  return trace.adopt(take(PyObject_CallOneArg(type, wrapped)));
}

/// torch._assert(condition, message); for tensor data the graph asserts it.
Value* asserted(Trace& trace, const Args& args) {
  Value* message = args.positional > 1 ? trace.see(args[1]) : nullptr;
  auto* tensor = message ? as<Tensor>(trace.see(args[0])) : nullptr;
  if (tensor && message->kind == Kind::Constant && PyUnicode_CheckExact(message->object))
    if (trace.scope().assert_true(tensor, true, message)) return trace.none();
  return checked<of_torch::Assert, 0>(trace, args);
}

// ---- making tensors

/// The items of a list or tuple; else null.
const std::vector<Value*>* items_in(Value* seen) {
  if (auto* list = as<List>(seen)) return &list->items();
  auto* tuple = as<Tuple>(seen);
  return tuple ? &tuple->items : nullptr;
}

/// True if a tensor, or with `numbers` a varying number, is contained at any depth.
bool holds_tensor(Trace& trace, Value* data, bool numbers) {
  data = trace.see(data);
  if (data->kind == Kind::Tensor) return true;
  if (auto* number = as<Number>(data)) return numbers && number->expr;
  const std::vector<Value*>* items = items_in(data);
  return items && std::ranges::any_of(*items, [&](Value* item) { return holds_tensor(trace, item, numbers); });
}

/// Finds whether torch._refs gives the same tensor as torch.tensor: only for numbers of one floating dtype without
/// gradients. Otherwise conversions, dtypes or gradients differ.
struct Alike {
  PyObject* dtype = nullptr;
  bool holds(Trace& trace, Value* data) {
    data = trace.see(data);
    if (auto* tensor = as<Tensor>(data)) {
      PyObject* its = meta::dtype_object(*tensor->record);
      const bool same = !dtype || dtype == its;
      dtype = its;
      return same && tensor->record->dim() == 0 && meta::is_floating_point(*tensor->record) &&
             !tensor->record->requires_grad && aten::is_exact_tensor_type(tensor->record->type);
    }
    const std::vector<Value*>* items = items_in(data);
    return items && std::ranges::all_of(*items, [&](Value* item) { return holds(trace, item); });
  }
};

/// torch.tensor([a, b]) of tensors would read their data, so torch._refs builds it from operators, as Dynamo does.
/// Where graphs run as they are, only if the result is the same.
Value* make_tensor(Trace& trace, const Args& args) {
  PyObject* const tensor = once([] { return real("torch", "tensor"); });
  Value* data = args.positional ? args[0] : args.keyword("data");
  if (Value* copied = tensor_of_array(trace, args)) return copied;
  if (!data || trace.see(data)->kind == Kind::Tensor || !holds_tensor(trace, data, true))
    return trace.emit(tensor, args);
  if (trace.contract.as_is && holds_tensor(trace, data, false) && !(args.keywords == 0 && Alike().holds(trace, data)))
    cannot(Reason::DataDependentValue, "torch.tensor of tensors");
  PyObject* const by_operators = of_torch::object(of_torch::TensorByOperators);
  return trace.emit(by_operators, args);
}

/// The dtype that torch.full chooses for a number read from such a tensor; null if one may not fit, or is complex.
PyObject* dtype_of_number(const meta::Record& record) {
  PyObject* const truth = once([] { return real("torch", "bool"); });
  PyObject* const whole = once([] { return real("torch", "int64"); });
  PyObject* const wide = once([] { return real("torch", "float64"); });
  PyObject* const ask = once([] { return real("torch", "get_default_dtype"); });
  PyObject* const found = take(PyObject_CallNoArgs(ask)).get();  // torch keeps it alive
  PyObject* dtype = meta::dtype_object(record);
  if (meta::is_floating_point(record)) return dtype == wide && found != wide ? nullptr : found;
  if (take(PyObject_GetAttrString(dtype, "is_complex")).get() == Py_True) return nullptr;
  return dtype == truth ? truth : whole;
}

/// torch.full with a tensor as fill value: empty, then fill_. Eager accepts only tensors without dimensions and
/// gradients, uses their number's dtype, and raises where fill_ would convert.
Value* full(Trace& trace, const Args& args) {
  PyObject* const full = once([] { return real("torch", "full"); });
  PyObject* const empty = once([] { return real("torch", "empty"); });
  static PyObject* const fill = intern("fill_");
  static PyObject *const dtype = intern("dtype"), *const size = intern("size"), *const number = intern("fill_value");
  Value* given[] = {args.positional > 0 ? args[0] : args.keyword(size),
                    args.positional > 1 ? args[1] : args.keyword(number)};
  auto* value = given[1] ? trace.see_as<Tensor>(given[1]) : nullptr;
  const bool twice = (args.positional > 0 && args.keyword(size)) || (args.positional > 1 && args.keyword(number));
  if (!value || !given[0] || twice || args.positional > 2) return trace.emit(full, args);
  std::vector<Value*> values{given[0]};
  std::vector<PyObject*> names;
  for (size_t i = 0; i < args.keywords; ++i) {
    if (PyUnicode_Compare(args.names[i], size) == 0 || PyUnicode_Compare(args.names[i], number) == 0) continue;
    names.push_back(args.names[i]);
    values.push_back(args.values[args.positional + i]);
  }
  if (trace.contract.as_is) {
    const meta::Record& record = *value->record;
    PyObject* found = dtype_of_number(record);
    Value* wanted = args.keyword(dtype);
    const bool known = found && (!wanted || trace.see(wanted)->object == found);
    const bool plain = !record.requires_grad && !record.dim() && aten::is_exact_tensor_type(record.type);
    if (!known || !plain || args.keyword("device"))
      cannot(Reason::DataDependentValue, "torch.full of a number that may not fit");
    if (!wanted) names.push_back(dtype), values.push_back(trace.constant(found));
  }
  Value* made = trace.emit(empty, Args{values.data(), 1, names.data(), names.size()});
  Value* filling[] = {made, value};
  return trace.emit_method(fill, Args{filling, 2, nullptr, 0});
}

/// torch.addcdiv(x, a, b, value=v) as x + v * (a / b) for compilers, if `value` is a tensor, whose number is unknown
/// before the graph runs. For plain numbers the operator stays, since it rounds differently.
Value* addcdiv(Trace& trace, const Args& args) {
  PyObject* const addcdiv = once([] { return real("torch", "addcdiv"); });
  PyObject* const div = once([] { return real("torch", "div"); });
  PyObject* const mul = once([] { return real("torch", "mul"); });
  PyObject* const add = once([] { return real("torch", "add"); });
  Value* scale = args.keywords == 1 ? args.keyword("value") : nullptr;
  const bool tensor = scale && args.positional == 3 && trace.see(scale)->kind == Kind::Tensor;
  if (!tensor || trace.contract.as_is) return trace.emit(addcdiv, args);
  Value* quotient = trace.emit(div, {args[1], args[2]});
  return trace.emit(add, {args[0], trace.emit(mul, {quotient, scale})});
}

/// torch.Size(items).
Value* make_size(Trace& trace, const Args& args) {
  auto [items] = positional<1>(args, 0);
  Tuple* size = trace.tuple({});
  size->type = reinterpret_cast<PyTypeObject*>(real("torch", "Size"));
  if (!items) return size;
  size->items = protocol::items_of_tuple(trace, items);
  for (Value* item : size->items) {
    Value* seen = trace.see(item);
    bool integer = seen->kind == Kind::Number || (seen->kind == Kind::Constant && PyLong_Check(seen->object));
    if (!integer) cannot(Reason::ArgumentKind, "torch.Size of anything but ints");
  }
  return size;
}

Value* size_numel(Trace& trace, const Args& args) {
  auto [self] = positional<1>(args, 1);
  Value* product = trace.integer(1);
  for (Value* item : content<Tuple>(trace, self)->items) product = protocol::binary(trace, NB_MULTIPLY, product, item);
  return product;
}

// ---- functions of numbers: folded on constants, else in the graph

template <Text name>
Value* of_numbers(Trace& trace, const Args& args) {
  PyObject* const function = once([] { return real("torch", name.text); });
  for (size_t i = 0; i < args.positional + args.keywords; ++i)
    if (trace.see(args.values[i])->kind != Kind::Constant) return trace.emit(function, args);
  return fold_or_stop(trace, function, args, name.text);
}

/// torch.sym_int(number): int() of a float that is an expression over sizes.
Value* sym_int(Trace& trace, const Args& args) {
  PyObject* const function = once([] { return real("torch", "sym_int"); });
  auto* number = args.positional == 1 && !args.keywords ? trace.see_as<Number>(args[0]) : nullptr;
  if (number && number->expr && number->type == &PyFloat_Type)
    return protocol::number_by(trace, shape::truncate(number->expr), function, number);
  return of_numbers<"sym_int">(trace, args);
}

Value* one_hot(Trace& trace, const Args& args) {
  PyObject* const one_hot = once([] { return real("torch.nn.functional", "one_hot"); });
  auto [tensor, classes] = bind(args, 1, {"input", "num_classes"});
  if (!classes) classes = args.keyword("num_classes");
  (void)tensor;
  const auto* varies = classes ? trace.see_as<value::Number>(classes) : nullptr;
  bool counts = classes != nullptr;
  if (varies && varies->expr) {
    counts = !trace.decide(equal(varies->expr, shape::constant(-1)));
  } else if (classes) {
    PyObject* count = trace.constant_of(classes);
    counts = !count || !PyLong_Check(count) || PyLong_AsLong(count) != -1;
  }
  if (!counts) cannot(Reason::DataDependentValue, "one_hot without num_classes");
  return trace.emit(one_hot, args);
}

void register_checks() {
  add_rows({{of_torch::Assert, &asserted},
            {of_torch::Check, &checked<of_torch::Check, 0>},
            {of_torch::CheckWith, &checked<of_torch::CheckWith, 1>},
            {of_torch::CheckIndex, &checked<of_torch::CheckIndex, 0>},
            {of_torch::CheckValue, &checked<of_torch::CheckValue, 0>},
            {of_torch::CheckType, &checked<of_torch::CheckType, 0>},
            {of_torch::CheckNotImplemented, &checked<of_torch::CheckNotImplemented, 0>}});
  protocol::add_function_model(of_torch::CheckIsSize, &checked_size);
}

void register_makers() {
  add_rows("torch", {{"tensor", &make_tensor},
                     {"full", &full},
                     {"addcdiv", &addcdiv},
                     {"Size", &make_size},
                     {"Size.numel", &size_numel},
                     {"device", &folded<"torch", "device">},
                     {"finfo", &folded<"torch", "finfo">},
                     {"iinfo", &folded<"torch", "iinfo">},
                     {"frombuffer", &refuse<Reason::CallUnknown, "torch.frombuffer">},
                     {"Tensor", &refuse<Reason::CallUnknown, "torch.Tensor(…)">},
                     {"Generator", &refuse<Reason::CallUnknown, "torch.Generator(…)">}});
  add_rows("torch.nn.functional", {{"one_hot", &one_hot}});
  add_rows("torch.nn", {{"Buffer", &refuse<Reason::CallUnknown, "torch.nn.Buffer(…)">}});
  add_rows({{of_torch::LazyPropertyAndProperty, &shown_property}});
  add_rows({{of_torch::LazyModuleMixinInferParameters, &refuse<Reason::Uninitialized, "">}});
  add_pure_methods(reinterpret_cast<PyTypeObject*>(real("torch", "dtype")));
  add_pure_methods(reinterpret_cast<PyTypeObject*>(real("torch", "device")), {"__enter__", "__exit__", "__call__"});
}

void register_numbers_of_torch() {
  add_rows("torch", {{"sym_int", &sym_int},
                     {"sym_float", &of_numbers<"sym_float">},
                     {"sym_max", &of_numbers<"sym_max">},
                     {"sym_min", &of_numbers<"sym_min">},
                     {"sym_not", &of_numbers<"sym_not">},
                     {"sym_ite", &of_numbers<"sym_ite">},
                     {"sym_sum", &of_numbers<"sym_sum">}});
}

}  // namespace

void register_torch_functions() {
  register_checks();
  register_makers();
  register_numbers_of_torch();
}

}  // namespace gramme::builtins
