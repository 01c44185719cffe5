// torch.utils.checkpoint.checkpoint: the function runs again in backward to recompute what it did not save.
//
// In eager, the second run repeats effects on objects from outside, so the function must have none. Writes to tensors
// are repeated only by backends that run the operator as eager does; a graph differentiated as a whole makes them once.
#include <algorithm>
#include <string_view>

#include "aten/state.h"
#include "base/imported.h"
#include "base/once.h"
#include "hop/body.h"
#include "torch/names.h"
#include "torch/option.h"
#include "trace/bodies.h"

namespace gramme::hop {

using namespace value;
using meta::Argument;

namespace {

const char* const kName = of_torch::text(of_torch::CheckpointModule);

/// A stand-in for contexts while the function that makes them is examined.
struct Contexts {
  bool asked = false;
  Value* made = nullptr;
};

/// Open bodies that eager runs twice: first with grad mode off, then in backward with it on.
struct Reentrant {
  int depth = 0;
};

class InReentrant {
 public:
  InReentrant(Trace& trace, bool reentrant) : depth_(trace.state<Reentrant>().depth), added_(reentrant) {
    depth_ += added_;
  }
  ~InReentrant() { depth_ -= added_; }
  InReentrant(const InReentrant&) = delete;

 private:
  int& depth_;
  int added_;
};

struct Call {
  Value* function = nullptr;
  std::vector<Value*> values;    // positional, then one for each keyword
  std::vector<PyObject*> names;  // of the function's keywords
  size_t positional = 0;
  std::vector<std::pair<const char*, Argument>> options;  // for the operator
  bool reentrant = true;
  Value* context = nullptr;  // a function that makes the two contexts; null if there is none
  Args args() const { return {values.data(), positional, names.data(), names.size()}; }
};

PyObject* flag_of(Trace& trace, Value* value) {
  PyObject* flag = constant_of(trace, value, kName);
  if (flag && !PyBool_Check(flag)) cannot(Reason::ArgumentKind, kName);
  return flag;
}

bool is_without_contexts(Trace& trace, Value* value) {
  PyObject* const none = of_torch::object(of_torch::NoopContextFn);
  Value* seen = trace.see(value);
  return seen->object == none;
}

/// Reads the call's arguments; ends the segment for those that torch.utils.checkpoint refuses.
Call bind(Trace& trace, const Args& args) {
  Call call;
  if (!args.positional) cannot(Reason::ArgumentKind, kName);
  call.function = args[0];
  call.values.assign(args.values + 1, args.values + args.positional);
  call.positional = call.values.size();
  Value *reentrant = nullptr, *debug = nullptr;
  for (size_t i = 0; i < args.keywords; ++i) {
    const std::string_view name = PyUnicode_AsUTF8(args.names[i]);
    Value* value = args[args.positional + i];
    if (name == "use_reentrant") {
      reentrant = value;
      call.options.emplace_back("use_reentrant", constant(constant_of(trace, value, kName)));
    } else if (name == "context_fn") {
      call.context = is_without_contexts(trace, value) ? nullptr : value;
    } else if (name == "determinism_check") {
      call.options.emplace_back("determinism_check", constant(constant_of(trace, value, kName)));
    } else if (name == "debug") {
      debug = value;
      call.options.emplace_back("debug", constant(flag_of(trace, value)));
    } else if (name == "early_stop") {
      call.options.emplace_back("early_stop", constant(flag_of(trace, value)));
    } else if (name == "preserve_rng_state") {
      call.options.emplace_back("preserve_rng_state", constant(flag_of(trace, value)));
    } else {
      call.values.push_back(value);
      call.names.push_back(args.names[i]);
    }
  }
  const bool stated = reentrant && constant_of(trace, reentrant, kName) != Py_None;
  if (!stated && trace.contract.breaks) cannot(Reason::OperatorWarns);
  if (stated) call.reentrant = flag_of(trace, reentrant) == Py_True;
  if (debug && flag_of(trace, debug) == Py_True) cannot(Reason::ArgumentKind, "torch.utils.checkpoint with debug=True");
  if (call.reentrant && (call.context || !call.names.empty())) cannot(Reason::ArgumentKind, kName);
  return call;
}

/// Refuses if the module's own settings, which the program may set at any time, are not the defaults.
void need_plain_settings(Trace& trace) {
  PyObject* const module = once([] { return import_module(kName); });
  static PyObject* const names[] = {of_torch::attribute(of_torch::EnableCheckpointEarlyStop),
                                    of_torch::attribute(of_torch::CheckpointDebugEnabled)};
  for (PyObject* name : names)
    if (constant_of(trace, protocol::get_attribute(trace, trace.pinned(module), name), kName) != Py_None)
      cannot(Reason::BodyUnsupported, "torch.utils.checkpoint with settings of its module");
}

/// The function if it only makes selective contexts: it is called when the graph runs.
PyObject* contexts_function(Trace& trace, Value* function) {
  Contexts& contexts = trace.state<Contexts>();
  contexts = {true, nullptr};
  Value* result;
  {
    trace::Confined confined(trace.confinement, trace.inliner);
    result = trace.see(protocol::call(trace, function, {}));
    confined.check();
  }
  contexts.asked = false;
  if (!contexts.made || result != contexts.made)
    cannot(Reason::BodyUnsupported, "torch.utils.checkpoint with contexts that are not selective checkpointing's");
  return real_function(trace, function, "torch.utils.checkpoint with a context_fn that the program makes");
}

bool keeps_effects() {
  static Option option(of_torch::DynamoConfig, "skip_fwd_side_effects_in_bwd_under_checkpoint");
  return option.is_set(false);
}

std::vector<Tensor*> explicit_tensors(Trace& trace, const Call& call) {
  std::vector<Tensor*> tensors;
  for (size_t i = 0; i < call.positional; ++i)
    if (auto* tensor = trace.see_as<Tensor>(call.values[i])) tensors.push_back(tensor);
  return tensors;
}

/// With use_reentrant the operator is one autograd function. It is equivalent to its body only if some input is
/// differentiable, and all results are differentiable and made by the body.
void check_reentrant(Trace& trace, const Call& call, bool recomputes) {
  std::vector<Tensor*> tensors = explicit_tensors(trace, call);
  const bool differentiable = std::any_of(tensors.begin(), tensors.end(),
                                          [&](const Tensor* tensor) { return trace.scope().requires_grad(tensor); });
  if (!differentiable && (recomputes || trace.contract.breaks)) cannot(Reason::OperatorWarns);
}

void check_reentrant_results(Trace& trace, Value* result, const std::vector<Tensor*>& made, bool recomputes) {
  result = trace.see(result);
  auto* tuple = as<Tuple>(result);
  const std::vector<Value*> items = tuple && tuple->type == &PyTuple_Type ? tuple->items : std::vector<Value*>{result};
  for (Value* item : items) {
    item = trace.see(item);
    if (item->kind == Kind::Constant) continue;
    auto* tensor = as<Tensor>(item);
    if (!tensor || std::find(made.begin(), made.end(), tensor) == made.end())
      cannot(Reason::BodyUnsupported, "a result that is not a new tensor, with use_reentrant=True");
    const bool differentiable = meta::is_floating_point(*tensor->record) || meta::is_complex(*tensor->record);
    if (recomputes && differentiable && !tensor->record->requires_grad)
      cannot(Reason::BodyUnsupported, "a result that needs no gradient, with use_reentrant=True");
  }
}

/// Checkpointing uses hooks on saved tensors, with which differentiating transforms raise.
void refuse_transforms(const graph::Graph& body) {
  PyObject* const disable = of_torch::object(of_torch::SavedTensorsHooksDisable);
  for (const graph::Node* node : body.nodes()) {
    if (node->body) refuse_transforms(*node->body);
    if (node->kind == graph::Node::CallFunction && node->call.target == disable)
      cannot(Reason::BodyRaised, "a transform of torch.func that takes no hooks of saved tensors");
  }
}

/// Which inputs of the body the program passed: only these are arguments of torch.utils.checkpoint.
PyObject* given(Trace& trace, const graph::Graph& body, const Call& call) {
  Owned<> places = take(PyList_New(0));
  const std::vector<Tensor*> tensors = explicit_tensors(trace, call);
  for (size_t i = 0; i < body.placeholders().size(); ++i) {
    const graph::Node* outer = body.placeholders()[i]->outer;
    if (std::any_of(tensors.begin(), tensors.end(), [&](Tensor* t) { return trace.scope().node(t) == outer; }))
      check(PyList_Append(places.get(), take(PyLong_FromSize_t(i)).get()));
  }
  return trace.keep(take(PyList_AsTuple(places.get())));
}

}  // namespace

Value* checkpoint(Trace& trace, Function*, const Args& args) {
  PyObject* const op = of_torch::object(of_torch::TagActivationCheckpoint);
  PyObject* const wrap = of_torch::object(of_torch::Wrap);
  const Call call = bind(trace, args);
  need_plain_settings(trace);
  const bool recomputes = aten::grad_enabled();
  if (call.reentrant) check_reentrant(trace, call, recomputes);
  PyObject* contexts = call.context ? contexts_function(trace, call.context) : nullptr;
  Body body(trace, "wrap_body", recomputes && !keeps_effects() ? Effects::Forbidden : Effects::Kept);
  Value* result;
  {
    InReentrant reentrant(trace, call.reentrant && recomputes);
    result = body.call(call.function, call.args());
  }
  const std::vector<Tensor*> made = body.tensors(result);
  // Without a recomputation this is a plain call; AOTAutograd rejects the other form.
  const bool differentiable =
      std::ranges::any_of(made, [&](Tensor* tensor) { return trace.scope().requires_grad(tensor); });
  const bool plain = trace.contract.differentiates && !differentiable && trace.scope().random();
  if (call.reentrant) {
    check_reentrant_results(trace, result, made, recomputes);
    body.refuse_aliases(made);
  }
  graph::Graph* graph = body.returns(made);
  if (recomputes && graph->writes_around && trace.contract.differentiates)
    cannot(Reason::EffectInBody, "a write to a tensor, which backward repeats");
  if (!call.reentrant && !trace.contract.as_is) refuse_transforms(*graph);
  graph->in_place = !recomputes && !contexts;
  if (contexts) graph->metadata.emplace_back(of_torch::text(of_torch::CheckpointContextFn), contexts);
  if (trace.contract.as_is) graph->metadata.emplace_back("gramme_given", given(trace, *graph, call));
  std::vector<Argument> arguments = {trace.scope().body(graph)};
  for (const Argument& argument : lifted(*graph)) arguments.push_back(argument);
  if (contexts) trace.scope().expect_program();
  graph::Node* node =
      plain ? trace.scope().emit_operator(wrap, arguments) : trace.scope().emit_operator(op, arguments, call.options);
  if (!plain && trace.scope().random()) trace.scope().state<trace::RandomCheckpoints>().push_back(node);
  take_results(trace, node, made);
  return result;
}

/// torch.is_grad_enabled()
Value* is_grad_enabled(Trace& trace, const Args& args) {
  PyObject* const real = once([] { return imported("torch", "is_grad_enabled").release(); });
  if (trace.confinement.is_of_gradients()) cannot(Reason::BodyUnsupported, "grad mode asked for in a hook");
  if (trace.state<Reentrant>().depth) {
    PyObject* const file = trace.inliner->current_function()->code->co_filename;
    if (!of_torch::is_in(file, of_torch::GradModeFile))
      cannot(Reason::BodyUnsupported, "grad mode asked for, with use_reentrant=True");
  }
  return protocol::fold(trace, real, args);
}

Value* selective_contexts(Trace& trace, Function*, const Args&) {
  Contexts& contexts = trace.state<Contexts>();
  if (!contexts.asked) cannot(Reason::CallSkipped, "create_selective_checkpoint_contexts");
  return contexts.made = trace.tuple({trace.none(), trace.none()});
}

}  // namespace gramme::hop
