// Interfaces of older programs: Variable(x), torch.FloatTensor(...), x.new(data). Also record_function, which only a
// profiler observes.
#include <algorithm>
#include <map>

#include "base/once.h"
#include "base/process.h"
#include "base/text.h"
#include "builtins/torch_support.h"
#include "torch/names.h"

namespace gramme::builtins {

using namespace value;

namespace {

/// Variable(x, requires_grad=False): x.detach(), perhaps requiring a gradient.
Value* make_variable(Trace& trace, const Args& args) {
  static PyObject* const detach = intern("detach");
  static PyObject* const require = intern("requires_grad_");
  auto [data, requires_grad] = bind(args, 1, {"data", "requires_grad"});
  if (!trace.see_as<Tensor>(data)) cannot(Reason::ArgumentKind, "Variable() of an object that is not a tensor");
  const bool requires_gradient = requires_grad && protocol::truth(trace, requires_grad);
  Value* result = protocol::call_method(trace, data, detach, {});
  return requires_gradient ? protocol::call_method(trace, result, require, {}) : result;
}

bool is_whole(Value* seen) { return seen->kind == Kind::Constant && PyLong_CheckExact(seen->object); }

/// The items of a list or tuple; null for others, including torch.Size.
const std::vector<Value*>* items_of(Value* seen) {
  if (auto* list = as<List>(seen)) return &list->items();
  auto* tuple = as<Tuple>(seen);
  return tuple && tuple->type == &PyTuple_Type ? &tuple->items : nullptr;
}

/// True for numbers of the dtype's kind, perhaps in nested lists or tuples.
bool is_data(Trace& trace, Value* value, bool whole) {
  value = trace.see(value);
  const std::vector<Value*>* items = items_of(value);
  if (!items) return is_whole(value) || (!whole && value->kind == Kind::Constant && PyFloat_CheckExact(value->object));
  return std::ranges::all_of(*items, [&](Value* item) { return is_data(trace, item, whole); });
}

}  // namespace

Value* tensor_of(Trace& trace, const Args& args, PyObject* dtype, PyObject* device, bool whole) {
  PyObject* const tensor = once([] { return real("torch", "tensor"); });
  PyObject* const empty = once([] { return real("torch", "empty"); });
  auto* const size_type = once([] { return reinterpret_cast<PyTypeObject*>(real("torch", "Size")); });
  static PyObject* const names[] = {intern("dtype"), intern("device")};
  std::vector<Value*> values(args.values, args.values + args.positional);
  auto* size = args.positional == 1 ? trace.see_as<Tuple>(args[0]) : nullptr;
  const bool sizes = size ? size->type == size_type
                          : std::ranges::all_of(values, [&](Value* value) { return is_whole(trace.see(value)); });
  if (sizes && values.empty()) values.push_back(trace.integer(0));
  if (!sizes && (args.positional != 1 || !items_of(trace.see(args[0])) || !is_data(trace, args[0], whole)))
    cannot(Reason::CallUnknown, "a tensor type called with anything but sizes or lists of numbers");
  const size_t positional = values.size();
  values.push_back(trace.constant(dtype));
  values.push_back(trace.constant(device));
  return protocol::call(trace, trace.pinned(sizes ? empty : tensor), Args{values.data(), positional, names, 2});
}

namespace {

/// torch.FloatTensor(...): on the CPU, whatever the default device is.
template <Text dtype, bool whole>
Value* make_tensor(Trace& trace, const Args& args) {
  PyObject* const type = once([] { return real("torch", dtype.text); });
  PyObject* const cpu = once([] { return PyObject_CallFunction(real("torch", "device"), "s", "cpu"); });
  if (args.keywords) cannot(Reason::ArgumentKind, "a tensor type with keyword arguments");
  return tensor_of(trace, args, type, cpu, whole);
}

// ---- record_function

/// Ends the segment while a profiler runs, which must see the program's ranges.
void refuse_profiler(Trace& trace) {
  PyObject* const enabled = of_torch::object(of_torch::ProfilerEnabled);
  if (call_real(trace, enabled, {}).get() == Py_True) cannot(Reason::CallSkipped, "record_function under a profiler");
}

Value* begin_range(Trace& trace, Function*, const Args& args) {
  refuse_profiler(trace);
  auto [self, name, arguments] = bind(args, 2, {"self", "name", "args"});
  auto set = [&, self = self](const char* attribute, Value* value) {
    protocol::set_attribute(trace, self, intern(attribute), value);
  };
  set("name", name);
  set("args", arguments ? arguments : trace.none());
  set("run_callbacks_on_exit", trace.boolean(true));
  set("record", trace.none());
  set(of_torch::text(of_torch::ProfilerExternalId), trace.none());
  return trace.none();
}

/// Marks a range without profiler as open or closed; its real exit does nothing without a record.
void set_open(Trace& trace, Value* range, bool open) {
  static PyObject* const ends = intern("run_callbacks_on_exit");
  protocol::set_attribute(trace, range, ends, trace.boolean(!open));
}

Value* enter_range(Trace& trace, Function*, const Args& args) {
  refuse_profiler(trace);
  auto [self] = positional<1>(args, 1);
  set_open(trace, self, true);
  return self;
}

Value* leave_range(Trace& trace, Function*, const Args& args) {
  refuse_profiler(trace);
  set_open(trace, positional<4>(args, 4)[0], false);
  return trace.none();
}

}  // namespace

namespace {

struct Renamed {
  Owned<PyCodeObject> code, copy;
};

struct State {
  std::map<std::pair<PyCodeObject*, std::string>, Renamed> renamed;  // GIL: by code, which it keeps alive, and name
};
OfProcess<State> state;

/// A copy of the code under another name; one copy for all functions of that code, so that resume points are found
/// again.
PyCodeObject* renamed(PyCodeObject* code, PyObject* name) {
  const auto key = std::pair(code, utf8_of(name));
  if (auto known = state->renamed.find(key); known != state->renamed.end()) return known->second.copy.get();
  Owned<> replace = take(PyObject_GetAttrString(reinterpret_cast<PyObject*>(code), "replace"));
  Owned<> names = take(Py_BuildValue("{s:O,s:O}", "co_name", name, "co_qualname", name));
  Owned<> other = take(PyObject_Call(replace.get(), take(PyTuple_New(0)).get(), names.get()));
  auto copy = Owned<PyCodeObject>::steal(reinterpret_cast<PyCodeObject*>(other.release()));
  return state->renamed.emplace(key, Renamed{Owned<PyCodeObject>::share(code), std::move(copy)})
      .first->second.copy.get();
}

/// torch.utils._contextlib._set_stack_frame_name(func, name), for a function made in the capture.
Value* set_frame_name(Trace& trace, Function* function, const Args& args) {
  auto [made, name] = bind(args, 2, {"func", "name"});
  auto* changed = trace.see_as<Function>(made);
  auto* text = trace.see_as<Constant>(name);
  if (!changed || changed->existing() || !text || !PyUnicode_CheckExact(text->object))
    return trace.inliner->call(function, args);
  trace.will_change(changed);
  changed->code = renamed(changed->code, text->object);
  return trace.none();
}

}  // namespace

void register_torch_legacy() {
  protocol::add_function_model(of_torch::SetStackFrameName, &set_frame_name);
  add_rows("torch", {{"FloatTensor", &make_tensor<"float32", false>},
                     {"DoubleTensor", &make_tensor<"float64", false>},
                     {"HalfTensor", &make_tensor<"float16", false>},
                     {"BFloat16Tensor", &make_tensor<"bfloat16", false>},
                     {"ByteTensor", &make_tensor<"uint8", true>},
                     {"CharTensor", &make_tensor<"int8", true>},
                     {"ShortTensor", &make_tensor<"int16", true>},
                     {"IntTensor", &make_tensor<"int32", true>},
                     {"LongTensor", &make_tensor<"int64", true>},
                     {"BoolTensor", &make_tensor<"bool", true>}});
  add_rows({{of_torch::Variable, &make_variable}});
  protocol::add_function_model(of_torch::VariableInstanceCheck, &protocol::traced_whole);
  protocol::add_function_model(of_torch::BeginRange, &begin_range);
  protocol::add_function_model(of_torch::EnterRange, &enter_range);
  protocol::add_function_model(of_torch::LeaveRange, &leave_range);
}

}  // namespace gramme::builtins
