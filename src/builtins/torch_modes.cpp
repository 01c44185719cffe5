// Grad mode, inference mode and autocast: nodes that change the thread's state where the graph runs.
//
// The thread is put in the same state during the capture, so that later calls are inferred under it; the trace restores
// it. The context managers are traced Python, except two that become one call in the graph.
#include <algorithm>
#include <array>
#include <memory>
#include <unordered_map>

#include "base/once.h"
#include "builtins/torch_support.h"
#include "torch/names.h"

namespace gramme::builtins {

using namespace value;
using meta::Argument;

namespace {

/// The value of an earlier mode node, which only the call that ends the mode may use.
Argument node_argument(graph::Node* node) {
  Argument argument;
  argument.kind = Argument::Number;
  argument.node = node;
  argument.object = Py_None;
  return argument;
}

// ---- grad mode

/// torch._C._set_grad_enabled(mode): a node only where the mode changes, as in Dynamo.
Value* set_grad_enabled(Trace& trace, const Args& args) {
  PyObject* const function = of_torch::object(of_torch::SetGradEnabled);
  auto [enabled] = bind(args, 1, {"enabled"});
  PyObject* mode = trace.constant_of(enabled);
  if (!mode || !PyBool_Check(mode)) cannot(Reason::ArgumentKind, of_torch::spelled(of_torch::SetGradEnabled));
  if (aten::grad_enabled() != (mode == Py_True)) {
    trace.scope().emit_mode(function, {meta::constant(mode)});
    aten::set_grad_enabled(mode == Py_True);
  }
  return trace.none();
}

// ---- modes entered in the graph and not yet left

struct Mode {
  graph::Node* entered;
  std::function<void()> leave;  // restores the thread
  size_t step = 0;
};
/// By context manager. The trace closes modes still open at the end of a capture.
struct OpenModes : std::unordered_map<const Value*, Mode> {};

void close(Trace& trace, const Value* manager) {
  auto& open_modes = trace.scope().state<OpenModes>();
  auto found = open_modes.find(manager);
  if (found == open_modes.end()) return;
  trace.scope().modes().leave(found->second.step);
  std::function<void()> leave = std::move(found->second.leave);
  open_modes.erase(found);
  leave();
}

void open(Trace& trace, const Value* manager, Mode mode) {
  auto& open_modes = trace.scope().state<OpenModes>();
  if (open_modes.contains(manager)) {
    mode.leave();
    cannot(Reason::CallUnknown, "a context entered twice");
  }
  mode.step = trace.scope().enter_mode();
  open_modes.emplace(manager, std::move(mode));
  trace.scope().modes().when_put_back([&trace, manager] { close(trace, manager); });
}

/// The node that entered this manager's mode.
graph::Node* entered_by(Trace& trace, const Value* manager, const char* name) {
  auto& open_modes = trace.scope().state<OpenModes>();
  auto found = open_modes.find(manager);
  if (found == open_modes.end())
    cannot(Reason::CallUnknown, std::string("leaving ") + name + " that was entered before");
  return found->second.entered;
}

Object* manager_of(Trace& trace, const Args& args, const char* name) {
  auto* manager = args.positional ? trace.see_as<Object>(args[0]) : nullptr;
  if (!manager) cannot(Reason::ArgumentKind, name);
  return manager;
}

PyObject* constant_attribute(Trace& trace, Object* manager, const char* name) {
  PyObject* value = trace.constant_of(protocol::get_attribute(trace, manager, intern(name)));
  if (!value) cannot(Reason::ArgumentKind, name);
  return value;
}

// ---- inference mode

/// with torch.inference_mode(mode): in the graph, and on the thread for inference.
Value* enter_inference(Trace& trace, const Args& args) {
  PyObject* const enter = of_torch::object(of_torch::EnterInferenceMode);
  PyObject* const leave = of_torch::object(of_torch::ExitInferenceMode);
  Object* manager = manager_of(trace, args, "torch.inference_mode");
  PyObject* mode = constant_attribute(trace, manager, "mode");
  // The mode's context object can be made only by entering it. If the open manager is needed as a real object, the
  // segment ends earlier.
  static PyObject* const context = of_torch::attribute(of_torch::InferenceModeContext);
  protocol::set_attribute(trace, manager, context, trace.make<Super>());
  Owned<> entered = take(PyObject_CallOneArg(enter, mode));
  graph::Node* node = trace.scope().emit_mode(enter, {meta::constant(mode)});
  open(trace, manager, {node, [entered, leave] {
                          ErrorState error;
                          Owned<> left = Owned<>::steal(PyObject_CallOneArg(leave, entered.get()));
                          PyErr_Clear();
                        }});
  return trace.none();
}

Value* exit_inference(Trace& trace, const Args& args) {
  PyObject* const leave = of_torch::object(of_torch::ExitInferenceMode);
  Object* manager = manager_of(trace, args, "torch.inference_mode");
  trace.scope().emit_mode(leave, {node_argument(entered_by(trace, manager, "torch.inference_mode"))});
  close(trace, manager);
  return trace.none();
}

// ---- autocast

/// Stores the attributes that autocast.__enter__ sets, in case the manager is needed as a real object.
void store_previous(Trace& trace, Object* manager, PyObject* device) {
  PyObject* const cache = once([] { return real("torch", "is_autocast_cache_enabled"); });
  PyObject* const enabled = once([] { return real("torch", "is_autocast_enabled"); });
  PyObject* const dtype = once([] { return real("torch", "get_autocast_dtype"); });
  auto store = [&](const char* name, Owned<> value) {
    protocol::set_attribute(trace, manager, intern(name), trace.constant(std::move(value)));
  };
  store("prev_cache_enabled", take(PyObject_CallNoArgs(cache)));
  store("prev", take(PyObject_CallOneArg(enabled, device)));
  store("prev_fastdtype", take(PyObject_CallOneArg(dtype, device)));
}

/// device, dtype, enabled and cache as given by the program, which Dynamo writes into the graph.
using Given = std::array<PyObject*, 4>;
struct GivenTo : std::unordered_map<const Value*, Given> {};

/// Traces autocast.__init__ and keeps its arguments.
Value* init_autocast(Trace& trace, const Args& args) {
  PyObject* const init = of_torch::object(of_torch::AutocastInit);
  auto values = bind(args, 2, {"self", "device_type", "dtype", "enabled", "cache_enabled"});
  Object* manager = manager_of(trace, args, "torch.autocast");
  Given given{nullptr, Py_None, Py_True, Py_None};
  for (size_t i = 0; i < given.size(); ++i)
    if (Value* value = values[i + 1]) given[i] = trace.constant_of(value);
  trace.inliner->call(trace.see_as<Function>(trace.pinned(init)), args);
  if (std::count(given.begin(), given.end(), nullptr)) cannot(Reason::ArgumentKind, "torch.autocast");
  trace.state<GivenTo>()[manager] = given;
  return trace.none();
}

/// The manager's arguments; for an existing manager, taken from its state.
Given given_or_state(Trace& trace, Object* manager) {
  const auto& given_to = trace.state<GivenTo>();
  if (auto found = given_to.find(manager); found != given_to.end()) return found->second;
  return {constant_attribute(trace, manager, "device"), constant_attribute(trace, manager, "fast_dtype"),
          constant_attribute(trace, manager, of_torch::text(of_torch::AutocastEnabled)),
          constant_attribute(trace, manager, of_torch::text(of_torch::CacheEnabled))};
}

/// with torch.autocast(…): torch.amp._enter_autocast(…) in the graph, and on the thread for inference.
Value* enter_autocast(Trace& trace, const Args& args) {
  PyObject* const enter = of_torch::object(of_torch::EnterAutocast);
  PyObject* const leave = of_torch::object(of_torch::ExitAutocast);
  Object* manager = manager_of(trace, args, "torch.autocast");
  Given given = given_or_state(trace, manager);
  store_previous(trace, manager, given[0]);
  Owned<> mode = take(PyObject_Vectorcall(enter, given.data(), given.size(), nullptr));
  graph::Node* node = trace.scope().emit_mode(
      enter, {meta::constant(given[0]), meta::constant(given[1]), meta::constant(given[2]), meta::constant(given[3])});
  open(trace, manager, {node, [mode, leave] {
                          ErrorState error;
                          Owned<> left = Owned<>::steal(PyObject_CallOneArg(leave, mode.get()));
                          PyErr_Clear();
                        }});
  return manager;
}

Value* exit_autocast(Trace& trace, const Args& args) {
  PyObject* const leave = of_torch::object(of_torch::ExitAutocast);
  Object* manager = manager_of(trace, args, "torch.autocast");
  trace.scope().emit_mode(leave, {node_argument(entered_by(trace, manager, "torch.autocast"))});
  close(trace, manager);
  return trace.boolean(false);
}

}  // namespace

void register_torch_modes() {
  add_rows({{of_torch::SetGradEnabled, &set_grad_enabled}});
  add_rows({{of_torch::InferenceModeEnter, &enter_inference}, {of_torch::InferenceModeExit, &exit_inference}});
  add_rows({{of_torch::AutocastInit, &init_autocast},
            {of_torch::AutocastEnter, &enter_autocast},
            {of_torch::AutocastExit, &exit_autocast}});
}

}  // namespace gramme::builtins
