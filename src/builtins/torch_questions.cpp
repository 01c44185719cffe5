// Functions of torch that report facts about tensors, the thread's state and tracing; answered in the capture.
#include <algorithm>
#include <vector>

#include "aten/classes.h"
#include "base/once.h"
#include "base/text.h"
#include "builtins/file_rules.h"
#include "builtins/torch_support.h"
#include "torch/names.h"

namespace gramme::builtins {

using namespace value;

namespace {

// ---- questions about values

/// torch.is_tensor(x): any tensor, also of a subclass.
Value* is_tensor(Trace& trace, const Args& args) {
  auto [object] = bind(args, 1, {"obj"});
  return trace.boolean(trace.see(object)->kind == Kind::Tensor);
}

/// A function that equals a tensor method: torch.numel(x), torch.is_complex(x).
template <Text name>
Value* of_tensor(Trace& trace, const Args& args) {
  auto [input] = bind(args, 1, {"input"});
  auto* tensor = trace.see_as<Tensor>(input);
  if (!tensor) {
    std::string wanted = "torch.";
    cannot(Reason::ArgumentKind, wanted.append(name.text).append(" of something that is no tensor"));
  }
  static PyObject* const text = intern(name.text);
  return protocol::call_method(trace, tensor, text, {});
}

/// torch._has_compatible_shallow_copy_type(x, y), by which Module.to() decides how it changes a parameter.
Value* shares_form(Trace& trace, const Args& args) {
  const auto [first, second] = positional<2>(args, 2);
  const auto is_dense = [&](Value* value) {
    auto* tensor = trace.see_as<Tensor>(value);
    if (!tensor || !aten::is_exact_tensor_type(tensor->record->type) || !meta::is_strided(*tensor->record) ||
        !(meta::is_floating_point(*tensor->record) || meta::is_complex(*tensor->record)))
      return false;
    const Owned<> device = take(PyObject_GetAttrString(meta::device_object(*tensor->record), "type"));
    return PyUnicode_CompareWithASCIIString(device.get(), "cpu") == 0 ||
           PyUnicode_CompareWithASCIIString(device.get(), "cuda") == 0;
  };
  if (!is_dense(first) || !is_dense(second))
    cannot(Reason::ArgumentKind, "torch._has_compatible_shallow_copy_type of other than plain dense tensors");
  return trace.boolean(true);
}

bool comes_from_data(Trace& trace, Value* value) {
  const shape::Assumptions& assumptions = trace.shapes.assumptions;
  auto of_data = [&](shape::SymInt number) { return !number.is_number() && assumptions.is_unbacked(number.expr()); };
  if (auto* tensor = trace.see_as<Tensor>(value))
    return std::ranges::any_of(tensor->record->sizes, of_data) || std::ranges::any_of(tensor->record->strides, of_data);
  if (auto* number = trace.see_as<Number>(value)) return !number->expr || assumptions.is_unbacked(number->expr);
  if (auto* tuple = trace.see_as<Tuple>(value))
    return std::ranges::any_of(tuple->items, [&](Value* item) { return comes_from_data(trace, item); });
  if (auto* list = trace.see_as<List>(value))
    return std::ranges::any_of(list->items(), [&](Value* item) { return comes_from_data(trace, item); });
  auto* constant = trace.see_as<Constant>(value);
  if (!constant) cannot(Reason::ArgumentKind, "has_free_unbacked_symbols");
  return false;
}

/// symbolic_shapes.has_free_unbacked_symbols(x): whether a size or number is data-dependent.
Value* has_unbacked(Trace& trace, Function*, const Args& args) {
  auto [value] = bind(args, 1, {"x"});
  return trace.boolean(comes_from_data(trace, value));
}

/// isinstance(x, torch.FloatTensor): true for dense tensors of that dtype and device, of any class.
Value* legacy_instance(Trace& trace, const Args& args) {
  auto [type, object] = positional<2>(args, 2);
  auto* cls = trace.see_as<Class>(type);
  auto* tensor = trace.see_as<Tensor>(object);
  if (!cls) cannot(Reason::ArgumentKind, "torch.tensortype.__instancecheck__");
  if (!tensor) return trace.boolean(false);
  auto is = [cls](const char* name, PyObject* object) {
    return take(PyObject_GetAttrString(cls->object, name)).get() == object;
  };
  const meta::Record& record = *tensor->record;
  if (!is("dtype", meta::dtype_object(record)) || !is("layout", meta::layout_object(record)))
    return trace.boolean(false);
  Owned<> device = take(PyObject_GetAttrString(meta::device_object(record), "type"));
  const char* where = is("is_cuda", Py_True) ? "cuda" : is("is_xpu", Py_True) ? "xpu" : "cpu";
  return trace.boolean(PyUnicode_CompareWithASCIIString(device.get(), where) == 0);
}

Value* type_name_of(Trace& trace, const Args& args) {
  auto [object] = bind(args, 1, {"obj"});
  auto* tensor = trace.see_as<Tensor>(object);
  if (tensor) {
    protocol::refuse_torch_function(trace, tensor, "torch.typename");
    return type_text(trace, *tensor->record);
  }
  PyObject* const function = once([] { return real("torch", "typename"); });
  return trace.inliner->call(trace.see_as<value::Function>(trace.pinned(function)), args);
}

/// True if the object has a `__torch_function__` that would be called; that of plain tensors and parameters is not.
bool overrides(Trace& trace, Value* object) {
  static PyObject* const hook = intern("__torch_function__");
  PyObject* const disabled = of_torch::object(of_torch::DisabledTorchFunctionImpl);
  object = trace.see(object);
  if (!trace.scope().modes().handlers_on()) return false;
  if (auto* tensor = as<Tensor>(object)) return protocol::asked_for(trace, tensor) != protocol::Asked::Nobody;
  auto* other = as<Object>(object);
  PyObject* found = other ? trace.type_lookup(other->type, hook) : nullptr;
  return found && found != disabled;
}

/// has_torch_function(objects), has_torch_function_unary(object), has_torch_function_variadic(*objects)
Value* has_torch_function(Trace& trace, const Args& args) {
  if (trace.scope().modes().at_start().function_modes > 0 || trace.scope().modes().in_function_mode())
    cannot(Reason::CallUnknown, "a torch function mode");
  std::vector<Value*> objects = all_positional(args);
  if (objects.size() == 1) {
    Value* seen = trace.see(objects[0]);
    if (seen->kind == Kind::Tuple || seen->kind == Kind::List) objects = protocol::items_of(trace, seen);
  }
  for (Value* object : objects)
    if (overrides(trace, object)) {
      if (trace.see(object)->kind != Kind::Tensor) cannot(Reason::CallUnknown, "a class with __torch_function__");
      return trace.boolean(true);
    }
  return trace.boolean(false);
}

/// The default device: that of the process if no device mode is entered.
Value* default_device(Trace& trace, const Args& args) {
  PyObject* const function = once([] { return real("torch", "get_default_device"); });
  if (trace.scope().modes().at_start().function_modes > 0) cannot(Reason::CallUnknown, "a torch function mode");
  return fold_or_stop(trace, function, args, "torch.get_default_device");
}

Value* function_mode_enabled(Trace& trace, const Args&) {
  return trace.boolean(trace.scope().modes().at_start().function_modes > 0 || trace.scope().modes().in_function_mode());
}

// ---- who traces

/// torch.compile(f) inside a capture is f.
Value* compile(Trace&, const Args& args) {
  if (args.positional == 1 && !args.keywords) return args[0];
  cannot(Reason::CallUnknown, "torch.compile with options inside a capture");
}

/// A scripted function: traces the Python function it was made of.
Value* call_scripted(Trace& trace, const Args& args) {
  static PyObject* const original = of_torch::attribute(of_torch::TorchdynamoInline);
  auto* scripted = args.positional ? trace.see_as<Object>(args[0]) : nullptr;
  Value* function = scripted ? trace.own_attribute(scripted, original) : nullptr;
  if (!function || !trace.see_as<Function>(function)) cannot(Reason::CallSkipped, "torch.jit.ScriptFunction");
  return protocol::call(trace, function, rest(args, 1));
}

/// torch.jit.annotate(type, value) is value.
Value* annotate(Trace&, const Args& args) {
  auto [type, value] = positional<2>(args, 2);
  (void)type;
  return value;
}

/// Becomes a node, as in Dynamo: a module made in the capture reports its creation when the graph runs.
template <of_torch::Name name>
Value* log_usage(Trace& trace, const Args& args) {
  PyObject* const function = of_torch::object(name);
  std::vector<meta::Argument> arguments;
  for (Value* value : all_positional(args)) arguments.push_back(trace.scope().argument(value));
  trace.scope().emit_mode(function, arguments);
  return trace.none();
}

/// What code of torch is told that asks whether it is being compiled (torch_askers.def).
enum class Told : uint8_t { Yes, No, Form };
struct Asker {
  std::string_view file, function;  // prefixes, below torch/
  Told told;
};
constexpr Asker kAskers[] = {
#define ASKER(file, function, told) {file, function, Told::told},
#include "torch_askers.def"
#undef ASKER
};

/// torch.compiler.is_compiling() and its relatives.
Value* is_compiling(Trace& trace, const Args&) {
  const std::string& root = *once([] { return new std::string(directory_of("torch")); });
  const value::Function* caller = trace.inliner->current_function();
  std::string file = caller ? utf8_of(caller->code->co_filename) : "";
  if (!file.starts_with(root)) return trace.boolean(true);
  file.erase(0, root.size());
  const std::string function = utf8_of(caller->code->co_qualname);
  for (const Asker& row : kAskers)
    if (file.starts_with(row.file) && function.starts_with(row.function))
      return trace.boolean(row.told == Told::Yes || (row.told == Told::Form && !trace.contract.as_is));
  return trace.boolean(!trace.contract.as_is);
}

/// is_exporting(): true for captures that are not run.
Value* is_exporting(Trace& trace, const Args&) { return trace.boolean(!trace.contract.runs); }

/// torch.distributions' constraint check; on a tensor the caller's `if not …: raise` becomes an assertion.
Value* all_valid(Trace& trace, value::Function* function, const Args& args) {
  auto [valid, message] = bind(args, 2, {"valid", "error_message"});
  if (!trace.contract.runs) return trace.inliner->call(function, args);
  return protocol::call(trace, trace.pinned(of_torch::object(of_torch::IsAllTrue)), {valid});
}

// ---- tables

void register_questions() {
  add_rows({{of_torch::HasCompatibleType, &shares_form}});
  add_rows("torch", {{"is_tensor", &is_tensor},
                     {"numel", &of_tensor<"numel">},
                     {"is_floating_point", &of_tensor<"is_floating_point">},
                     {"is_complex", &of_tensor<"is_complex">},
                     {"is_signed", &of_tensor<"is_signed">},
                     {"is_conj", &of_tensor<"is_conj">},
                     {"is_neg", &of_tensor<"is_neg">},
                     {"get_device", &of_tensor<"get_device">},
                     {"is_nonzero", &refuse<Reason::DataDependentBranch, "torch.is_nonzero">},
                     {"is_inference", &of_tensor<"is_inference">},
                     {"typename", &type_name_of}});
  add_rows(Py_TYPE(real("torch", "FloatTensor")), {{"__instancecheck__", &legacy_instance}});
  add_rows({{of_torch::HasTorchFunction, &has_torch_function},
            {of_torch::HasTorchFunctionUnary, &has_torch_function},
            {of_torch::HasTorchFunctionVariadic, &has_torch_function},
            {of_torch::IsTorchFunctionModeEnabled, &function_mode_enabled}});
}

void register_tracing_states() {
  protocol::add_function_model(of_torch::HasFreeUnbackedSymbols, &has_unbacked);
  protocol::add_function_model(of_torch::AllTrueOrAssert, &all_valid);
  add_rows("torch.compiler",
           {{"is_compiling", &is_compiling}, {"is_dynamo_compiling", &is_compiling}, {"is_exporting", &is_exporting}});
  add_rows({{of_torch::UtilsIsCompiling, &is_compiling}});
  add_rows({{of_torch::ScriptFunctionCall, &call_scripted}});
  add_rows("torch.jit",
           {{"is_scripting", &boolean_answer<false>}, {"is_tracing", &boolean_answer<false>}, {"annotate", &annotate}});
  add_rows({{of_torch::InternalIsScripting, &boolean_answer<false>}});
  add_rows({{of_torch::GetTracingState, &none_answer},
            {of_torch::IsTracing, &boolean_answer<false>},
            {of_torch::LogApiUsageOnce, &log_usage<of_torch::LogApiUsageOnce>},
            {of_torch::LogApiUsageMetadata, &log_usage<of_torch::LogApiUsageMetadata>}});
  add_rows({{of_torch::IsFxTracing, &boolean_answer<false>}, {of_torch::IsFxSymbolicTracing, &boolean_answer<false>}});
  // Dynamo says yes: the fused paths of nn.MultiheadAttention stay out of graphs.
  add_rows({{of_torch::IsMakeFxTracing, &is_compiling}});
  add_rows("torch", {{"compile", &compile}});
}

/// The arguments of tensor.to(), read: device, dtype, non_blocking, memory format. For to(other) those of the other.
Value* parse_to(Trace& trace, const Args& args) {
  PyObject* const parse = of_torch::object(of_torch::ParseTo);
  auto* like = args.positional ? trace.see_as<Tensor>(args[0]) : nullptr;
  if (!like) return fold_or_stop(trace, parse, args, "arguments of Tensor.to()");
  std::vector<Value*> values = {trace.constant(meta::device_object(*like->record)),
                                trace.constant(meta::dtype_object(*like->record))};
  values.insert(values.end(), args.values + 1, args.values + args.positional + args.keywords);
  const Args all{values.data(), args.positional + 1, args.names, args.keywords};
  return fold_or_stop(trace, parse, all, "arguments of Tensor.to()");
}

void register_state_questions() {
  add_pure("torch", {"is_grad_enabled", "get_default_dtype", "is_autocast_enabled", "get_autocast_dtype",
                     "get_autocast_gpu_dtype", "get_autocast_cpu_dtype", "is_autocast_cache_enabled",
                     "is_autocast_cpu_enabled", "promote_types", "can_cast"});
  add_pure({of_torch::IsAnyAutocastEnabled, of_torch::IsAutocastAvailable, of_torch::GetPrivateuse1BackendName,
            of_torch::IsTorchFunctionAllDisabled, of_torch::GetDeterministicAlgorithms,
            of_torch::GetDeterministicAlgorithmsWarnOnly, of_torch::HasDistributed, of_torch::InferSize});
  add_rows({{of_torch::ParseTo, &parse_to}});
  add_rows("torch", {{"are_deterministic_algorithms_enabled", &folded<"torch", "are_deterministic_algorithms_enabled">},
                     {"is_deterministic_algorithms_warn_only_enabled",
                      &folded<"torch", "is_deterministic_algorithms_warn_only_enabled">},
                     {"broadcast_shapes", &folded<"torch", "broadcast_shapes">},
                     {"get_default_device", &default_device},
                     {"compiled_with_cxx11_abi", &folded<"torch", "compiled_with_cxx11_abi">},
                     {"is_inference_mode_enabled", &folded<"torch", "is_inference_mode_enabled">}});
  add_rows("torch.cuda", {{"is_available", &folded<"torch.cuda", "is_available">},
                          {"device_count", &folded<"torch.cuda", "device_count">},
                          {"is_bf16_supported", &folded<"torch.cuda", "is_bf16_supported">},
                          {"get_device_properties", &folded<"torch.cuda", "get_device_properties">},
                          {"get_device_capability", &folded<"torch.cuda", "get_device_capability">}});
  add_rows("torch.xpu", {{"is_available", &folded<"torch.xpu", "is_available">}});
  add_rows("torch.backends.mps", {{"is_available", &folded<"torch.backends.mps", "is_available">}});
  add_rows("torch.backends.cuda", {{"is_built", &folded<"torch.backends.cuda", "is_built">}});
  add_rows("torch.accelerator", {{"is_available", &folded<"torch.accelerator", "is_available">},
                                 {"current_accelerator", &folded<"torch.accelerator", "current_accelerator">}});
}

template <of_torch::Name id>
Value* folded_name(Trace& trace, const Args& args) {
  return fold_or_stop(trace, of_torch::object(id), args, "a question about the processor");
}

/// Questions about the processor, and about the libraries that torch was built with: their answers never change.
void register_machine_questions() {
  add_rows({{of_torch::CpuHasAvx2, &folded_name<of_torch::CpuHasAvx2>},
            {of_torch::CpuHasAvx512, &folded_name<of_torch::CpuHasAvx512>},
            {of_torch::CpuHasAvx512Bf16, &folded_name<of_torch::CpuHasAvx512Bf16>},
            {of_torch::CpuHasVnni, &folded_name<of_torch::CpuHasVnni>},
            {of_torch::CpuHasAmxTile, &folded_name<of_torch::CpuHasAmxTile>},
            {of_torch::CpuHasAmxFp16, &folded_name<of_torch::CpuHasAmxFp16>}});
  add_rows("torch.cpu", {{"is_available", &folded<"torch.cpu", "is_available">},
                         {"device_count", &folded<"torch.cpu", "device_count">},
                         {"current_device", &folded<"torch.cpu", "current_device">},
                         {"is_initialized", &folded<"torch.cpu", "is_initialized">}});
  add_rows("torch.backends.cpu", {{"get_cpu_capability", &folded<"torch.backends.cpu", "get_cpu_capability">}});
  add_rows("torch.backends.mkl", {{"is_available", &folded<"torch.backends.mkl", "is_available">}});
  add_rows("torch.backends.openmp", {{"is_available", &folded<"torch.backends.openmp", "is_available">}});
}

}  // namespace

void register_torch_questions() {
  register_questions();
  register_tracing_states();
  register_state_questions();
  register_machine_questions();
}

}  // namespace gramme::builtins
