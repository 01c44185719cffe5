// Sets up a capture from options and PyTorch's settings, passes its graph to the backend, and learns from the result
// for later captures.
#include "api/capturer.h"

#include <algorithm>

#include "api/filter.h"
#include "api/listeners.h"
#include "api/native.h"
#include "api/rebinding.h"
#include "api/settings.h"
#include "api/terms.h"
#include "aten/classes.h"
#include "aten/recorded.h"
#include "backend/compile.h"
#include "backend/fx.h"
#include "backend/kept_graph.h"
#include "backend/metadata.h"
#include "base/imported.h"
#include "base/interruption.h"
#include "base/once.h"
#include "bytecode/code.h"
#include "interp/capture.h"
#include "meta/asked.h"
#include "native/executor.h"
#include "native/from_graph.h"
#include "portable/lasting.h"
#include "torch/names.h"
#include "torch/option.h"

namespace gramme::api {

namespace {

std::string text(PyObject* object) { return object && PyUnicode_Check(object) ? PyUnicode_AsUTF8(object) : "?"; }

std::string place_of(const runtime::FrameView& frame) {
  return text(frame.code->co_qualname) + " (" + text(frame.code->co_filename) + ":" +
         std::to_string(bytecode::decode(frame.code).line(frame.offset)) + ")";
}

/// Raises the exception that the function makes from the message.
[[noreturn]] void raise(const Owned<>& make, const std::string& message) {
  Owned<> error = take(PyObject_CallFunction(make.get(), "s", message.c_str()));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
  throw PythonError();
}

/// Raises gramme.errors.CaptureError with the user's line.
[[noreturn]] void raise_capture_error(const plan::Ending& ending) {
  Owned<> module = take(import_module("gramme.errors"));
  Owned<> make = take(PyObject_GetAttrString(module.get(), "capture_error"));
  Owned<> error = take(PyObject_CallFunction(
      make.get(), "ssisssssOi", ending.file.c_str(), ending.function.c_str(), ending.inner_line, ending.reason.c_str(),
      ending.detail.c_str(), ending.hint.c_str(), ending.operation.c_str(), backend::module_path(ending.module).c_str(),
      stack_text(ending).get(), int{ending.unbacked}));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
  throw PythonError();
}

/// True if the fact guards a number that may differ in the next call.
bool may_become_dynamic(const guards::Fact& fact) {
  if (fact.kind != guards::Kind::Constant) return false;
  PyObject* object = fact.object.get();
  return (PyLong_CheckExact(object) || PyFloat_CheckExact(object)) && trace::may_vary(fact.source);
}

constexpr int kMostRestarts = 100;  // of a backend, the same as in torch._dynamo

/// True if the frame or one of its callers is in the middle of an optimizer's method.
bool is_in_step(const runtime::FrameView& frame) {
  PyTypeObject* const optimizer = once([] { return imported_type("torch.optim.optimizer", "Optimizer"); });
  auto is_method = [&](PyObject* const* locals, int count) {
    return count > 0 && locals[0] && PyObject_TypeCheck(locals[0], optimizer);
  };
  return frame.offset != 0 && (is_method(frame.locals, frame.local_count) ||
                               std::ranges::any_of(frame.callers, [&](const runtime::WaitingView& caller) {
                                 return is_method(caller.locals, caller.code->co_nlocals);
                               }));
}

/// Restarts the capture with constants: those that the backend needs, or else all numbers among the graph's inputs that
/// are no symbols.
[[noreturn]] void specialize(const backend::Captured& captured) {
  trace::NeedsConstant needed{captured.constants(), true};
  for (const graph::Node* node : captured.graph().placeholders())
    if (captured.constants().empty() && !node->record && !node->symbol) needed.sources.push_back(node->source);
  throw needed;
}

/// Adds guards for the identity of objects that became part of the compiled code.
void require_frozen(const backend::Captured& captured, const std::vector<Owned<>>& inputs, plan::Segment& segment) {
  if (captured.frozen().empty()) return;
  std::vector<guards::Fact> facts;
  for (size_t input : captured.frozen())
    facts.push_back({captured.graph().placeholders().at(input)->source, guards::Kind::Identity, inputs.at(input)});
  segment.guards.require(std::move(facts));
}

/// An option's comma-separated list, parsed by gramme._policy; null if it is empty.
Owned<> listed(Option& option, const char* reader) {
  const Owned<> text = option.value();
  if (!text || PyObject_IsTrue(text.get()) != 1) return {};
  return take(PyObject_CallOneArg(imported("gramme._policy", reader).get(), text.get()));
}

std::vector<trace::NamedSource> named_sources(Option& option) {
  std::vector<trace::NamedSource> result;
  const Owned<> rows = listed(option, "named_sources");
  for (Py_ssize_t i = 0; rows && i < PyList_GET_SIZE(rows.get()); ++i) {
    PyObject* row = PyList_GET_ITEM(rows.get(), i);
    PyObject* dim = PyTuple_GET_ITEM(row, 1);
    result.push_back(
        {share(PyTuple_GET_ITEM(row, 0)), dim == Py_None ? std::nullopt : std::optional(PyLong_AsSize_t(dim))});
  }
  return result;
}

std::unordered_set<int64_t> numbers_of(Option& option) {
  std::unordered_set<int64_t> result;
  const Owned<> rows = listed(option, "numbers");
  for (Py_ssize_t i = 0; rows && i < PyList_GET_SIZE(rows.get()); ++i)
    result.insert(PyLong_AsLongLong(PyList_GET_ITEM(rows.get(), i)));
  return result;
}

/// Notes an object's sizes or number (in containers too) as if a capture had specialised on them.
void note(trace::Policy& policy, PyObject* object, source::Pool& pool, const source::Source* source, int depth = 0) {
  constexpr int kDeepest = 3;
  using SK = source::Kind;
  if (aten::is_tensor(object)) {
    policy.observed.try_emplace(source->path, aten::tensor_spec(object)->tensor);
  } else if (PyLong_CheckExact(object) || PyFloat_CheckExact(object)) {
    policy.numbers.try_emplace(source->path, share(object));
  } else if ((PyTuple_CheckExact(object) || PyList_CheckExact(object)) && depth < kDeepest) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
      note(policy, PySequence_Fast_GET_ITEM(object, i), pool, pool.child(source, SK::Item, i), depth + 1);
  } else if (PyDict_CheckExact(object) && depth < kDeepest) {
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(object, &at, &key, &value);)
      if (PyUnicode_CheckExact(key)) note(policy, value, pool, pool.child(source, SK::Value, key), depth + 1);
  }
}

/// Passes the lines of a capture to its report while the capture runs.
class Listens {
 public:
  Listens(trace::Policy& policy, trace::LineListener* listener) : policy_(policy) { policy.lines = listener; }
  ~Listens() { policy_.lines = nullptr; }
  Listens(const Listens&) = delete;

 private:
  trace::Policy& policy_;
};

/// torch._dynamo.config.side_effect_replay_policy if it is "warn" or "error"; else empty.
std::string judges_effects() {
  static Option option(of_torch::DynamoConfig, "side_effect_replay_policy");
  const Owned<> policy = option.value();
  const std::string how = policy && PyUnicode_Check(policy.get()) ? text(policy.get()) : "";
  return how == "warn" || how == "error" ? how : "";
}

/// Packs a contract and the option `dynamic` into a number.
uint64_t number_of(const trace::Contract& contract, const std::optional<bool>& dynamic) {
  const bool flags[] = {true,
                        contract.as_is,
                        contract.locates,
                        contract.differentiates,
                        contract.functionalizes,
                        contract.symbols,
                        contract.runs,
                        contract.breaks,
                        contract.exact_numpy,
                        dynamic.has_value(),
                        dynamic.value_or(false)};
  uint64_t number = 0;
  for (bool flag : flags) number = number << 1 | uint64_t{flag};
  return number;
}

/// Stores example values of a kept graph's nodes.
void keep_examples(const Owned<>& module, PyObject* captured) {
  apart_or_throw([&] {
    take(PyObject_CallFunctionObjArgs(imported("gramme._logging", "keep_examples").get(), module.get(), captured,
                                      nullptr));
  });
}

/// Raises for a graph break under torch._dynamo.error_on_graph_break. Entering and leaving that context run uncaptured
/// too, but do not count.
void refuse_break(const plan::Segment& segment) {
  if (segment.exit.kind != plan::ExitKind::Concrete || segment.ending.raises || is_told(segment)) return;
  if (segment.ending.detail.find("ErrorOnGraphBreak") != std::string::npos || !is_break_error()) return;
  leave_break_error();  // the frame is left before it can leave the context
  raise_capture_error(segment.ending);
}

}  // namespace

bool Capturer::compile(PyObject* compiler, const trace::Trace& trace, const std::vector<Owned<>>& inputs,
                       plan::Segment& segment, const runtime::FrameView& frame, Report& report) const {
  if (fullgraph() && segment.exit.kind == plan::ExitKind::Concrete) return true;
  std::unique_ptr<graph::Kept> anew;
  if (rebinds()) [[unlikely]]
    anew = rebound(trace.scope().graph(), inputs, segment, frame);
  const graph::Graph& captured_graph = trace.scope().root();
  judge_effects(trace);
  segment.compile_id = report.id();
  backend::HandedOver record = backend::handed_over(trace);
  const backend::CallInputs of_call = backend::call_inputs(trace);
  const CapturedForPython captured(captured_graph, record, of_call, segment);
  if (!compile(compiler, anew ? anew->graph() : captured_graph, inputs, captured, segment, report)) return false;
  const bool for_others = (*captured).frozen().empty() && !trace.policy.told_by_backend;
  if (frame.terms.captures && for_others) backend::keep_graph(captured_graph, std::move(record), segment);
  return true;
}

/// `graph` is the one of `captured` or an equivalent copy.
bool Capturer::compile(PyObject* compiler, const graph::Graph& graph, const std::vector<Owned<>>& inputs,
                       const CapturedForPython& captured, plan::Segment& segment, Report& report) const {
  const bool native = is_native(compiler), bodies = graph.has_bodies();
  Owned<> module;
  if (!native || bodies || options_.keep_graphs || report.shows_graphs()) module = backend::to_fx(graph, inputs);
  if (options_.keep_graphs) segment.graph_module = module;
  report.graph(module, captured.object());
  if (options_.keep_graphs) keep_examples(module, captured.object());
  if (native) {
    if (bodies) module = take(PyObject_CallOneArg(imported("gramme._higher_order", "as_they_are").get(), module.get()));
    const native::Settings settings{native::Trust::Guarded, cached_of_backend(compiler), backward_of(compiler)};
    segment.compiled = native::make_executor(native::from_graph(graph, module.get(), settings), settings);
    segment.call = native::call_graph;
    report.compiled(segment.operations);
    return true;
  }
  backend::Compiled compiled = backend::compile(compiler, module, inputs, captured.object(), fullgraph());
  for (int i = 0; compiled.state == backend::Compiled::Again && i < kMostRestarts; ++i) {
    module = backend::to_fx(graph, inputs);
    compiled = backend::compile(compiler, module, inputs, captured.object(), fullgraph());
  }
  if (compiled.state == backend::Compiled::Again || compiled.state == backend::Compiled::Plain) return false;
  if (compiled.state == backend::Compiled::NeedsConstants) specialize(*captured);
  require_frozen(*captured, inputs, segment);
  if (!(*captured).conditions().empty()) segment.guards.require((*captured).conditions());
  segment.compiled = std::move(compiled.function);
  segment.call = nullptr;
  report.compiled(segment.operations);
  return true;
}

/// The program's options come first, then the present settings of torch._dynamo.config.
void Capturer::set_dynamic(trace::Policy& policy) const {
  static Option automatic(of_torch::DynamoConfig, "automatic_dynamic_shapes"),
      fixed(of_torch::DynamoConfig, "assume_static_by_default"), ints_fixed(of_torch::DynamoConfig, "specialize_int"),
      module_ints_vary(of_torch::DynamoConfig, "allow_unspec_int_on_nn_module"),
      scalars(of_torch::DynamoConfig, "capture_scalar_outputs"),
      shapes(of_torch::DynamoConfig, "capture_dynamic_output_shape_ops"),
      dynamic_sources(of_torch::CompilerConfig, "dynamic_sources"),
      unbacked_sources(of_torch::CompilerConfig, "unbacked_sources"),
      static_sources(of_torch::CompilerConfig, "static_sources"),
      dynamic_values(of_torch::CompilerConfig, "dynamic_values");
  policy.contract = options_.contract;
  policy.automatic = options_.dynamic ? *options_.dynamic : automatic.is_set(true);
  policy.all_dynamic = options_.dynamic ? *options_.dynamic : !fixed.is_set(true);
  policy.whole_numbers_vary = !ints_fixed.is_set(false) || !options_.varies.empty();
  policy.module_numbers_vary = module_ints_vary.is_set(false);
  policy.named_dynamic = named_sources(dynamic_sources);
  for (const trace::NamedSource& named : options_.varies)
    policy.named_dynamic.push_back({share(named.pattern.get()), named.dim});
  policy.named_unbacked = named_sources(unbacked_sources);
  if (static_sources.exists()) policy.named_static = named_sources(static_sources);
  policy.dynamic_values = numbers_of(dynamic_values);
  policy.data = {};
  if (!policy.contract.symbols) return;
  policy.data.scalars = fullgraph() || scalars.is_set(false);
  policy.data.shapes = fullgraph() || shapes.is_set(false);
}

void Capturer::judge_effects(const trace::Trace& trace) {
  if (trace.effects().empty()) return;
  const std::string how = judges_effects();
  if (how.empty()) return;
  Owned<> names = take(PyList_New(0));
  for (const effects::Effect& effect : trace.effects().entries()) {
    if (!effect.target || !effect.target->source) continue;
    Owned<> name = take(PyUnicode_FromString(effect.target->source->print().c_str()));
    if (check(PySequence_Contains(names.get(), name.get())) == 0) check(PyList_Append(names.get(), name.get()));
  }
  if (PyList_GET_SIZE(names.get()) == 0) return;
  const Owned<> message = take(
      PyUnicode_FromFormat("While compiling, we found certain side effects happened in the model.forward. Here are "
                           "the list of potential sources you can double check: %R",
                           names.get()));
  if (how == "warn") {
    check(PyErr_WarnEx(PyExc_UserWarning, PyUnicode_AsUTF8(message.get()), 1));
    return;
  }
  PyErr_SetObject(PyExc_RuntimeError, message.get());
  throw PythonError();
}

namespace {
/// The code of a function; null for another object.
Owned<> code_of(PyObject* object) { return PyFunction_Check(object) ? share(PyFunction_GET_CODE(object)) : Owned<>(); }
}  // namespace

/// Notes the numbers, sizes and objects that the segment's guards fix.
void Capturer::learn(trace::Policy& policy, const plan::Segment& segment) {
  std::unordered_set<size_t> cached;
  for (const guards::Fact& fact : segment.guards.description().facts) {
    if (fact.kind == guards::Kind::Length) policy.lengths[fact.source->path] = fact.number;
    if (fact.kind == guards::Kind::Keys && trace::is_of_hooks(fact.source))
      policy.keys.try_emplace(fact.source->path, fact.object);
    if (fact.kind == guards::Kind::Identity && trace::may_vary(fact.source))
      policy.held.try_emplace(fact.source->path, trace::Held{fact.object.get(), code_of(fact.object.get())});
    if (trace::is_result_of_cache(fact.source)) cached.insert(fact.source->path);
    if (may_become_dynamic(fact)) policy.numbers[fact.source->path] = fact.object;
    if (!fact.spec || !trace::may_vary(fact.source)) continue;
    policy.observed.try_emplace(fact.source->path, fact.spec->tensor);
  }
  for (size_t path : cached) ++policy.cached[path];
}

void Capturer::insist_on_whole(const runtime::FrameView& frame, const plan::Segment* segment) const {
  if (options_.contract.breaks) return;
  if (!segment) {
    plan::Ending ending{"the function cannot be captured", "", ""};
    ending.line = ending.inner_line = frame.code->co_firstlineno;
    ending.file = text(frame.code->co_filename);
    ending.function = text(frame.code->co_qualname);
    raise_capture_error(ending);
  }
  const bool whole = options_.contract.runs ? segment->exit.kind != plan::ExitKind::Concrete
                                            : segment->exit.kind == plan::ExitKind::Return;
  if (!whole) raise_capture_error(segment->ending);
}

const std::shared_ptr<Capturer::Point>& Capturer::point_of(const runtime::FrameView& frame) {
  std::shared_ptr<Point>& known =
      points_[reinterpret_cast<uint64_t>(frame.code) * 65599 + static_cast<uint64_t>(frame.offset)];
  if (!known) known = std::make_shared<Point>(Point{frame.offset == 0 ? at_start_ : later_, {}});
  return known;
}

void Capturer::look(const runtime::FrameView& frame) {
  source::Pool pool;
  for (int i = 0; i < frame.local_count; ++i)
    if (frame.locals[i])
      note(point_of(frame)->policy, frame.locals[i], pool,
           pool.local(i, PyTuple_GET_ITEM(frame.code->co_localsplusnames, i)));
}

bool Capturer::generalize(const runtime::FrameView& frame) {
  trace::Policy& policy = point_of(frame)->policy;
  const bool was = std::exchange(policy.general, true);
  return !was && options_.contract.breaks && options_.contract.symbols && policy.automatic &&
         !policy.times_fixed.empty();
}

std::unique_ptr<plan::Segment> Capturer::capture(const runtime::FrameView& frame) {
  const std::shared_ptr<Point> point = point_of(frame);
  Compilation compilation(frame);
  Report report(frame, point->ids);
  const aten::RecordingPtr profiled = aten::start_recording();
  if (profiled) aten::name(*profiled, "gramme capture: " + place_of(frame));
  std::unique_ptr<plan::Segment> segment;
  bool refused = false;
  const uint64_t asked = meta::asked->program;
  try {
    segment = capture(frame, point->policy, report, refused);
  } catch (const PythonError&) {
    report.failed();
    throw;
  }
  if (segment && asked == meta::asked->program) {
    segment->terms = frame.terms.own;
    segment->capture_terms = refused ? 0 : frame.terms.captures;
  }
  report.captured(segment.get());
  compilation.finish();
  if (frame.offset == 0) warn_of_settings();
  return segment;
}

std::unique_ptr<plan::Segment> Capturer::capture(const runtime::FrameView& frame, trace::Policy& policy, Report& report,
                                                 bool& refused) const {
  interp::Start start{frame.function, frame.code,      frame.locals, frame.stack, frame.depth,
                      frame.offset,   frame.exception, frame.outer,  {}};
  for (const runtime::WaitingView& caller : frame.callers)
    start.callers.push_back(
        {caller.function, caller.code, caller.locals, caller.stack, caller.depth, caller.unit, caller.gives});
  policy.iterates = frame.iterates;
  const Listens listens(policy, report.begin());
  policy.in_step = options_.contract.counts() && is_in_step(frame);
  set_dynamic(policy);
  // A backend that calls the program's operations unchanged needs no rehearsal.
  Owned<> rehearsal;
  if (frame.rehearses && !policy.contract.as_is)
    rehearsal = take(PyObject_CallNoArgs(imported("gramme._policy", "rehearsal").get()));
  PyObject* const compiler = rehearsal ? rehearsal.get() : options_.backend.get();
  auto compile = [&](const trace::Trace& trace, const std::vector<Owned<>>& inputs, plan::Segment& segment) {
    refused = !this->compile(compiler, trace, inputs, segment, frame, report);
    return !refused;
  };
  std::unique_ptr<plan::Segment> segment;
  try {
    segment = interp::capture(start, policy, compile);
  } catch (const trace::Unguardable&) {
    insist_on_whole(frame, nullptr);
    return nullptr;
  }
  insist_on_whole(frame, segment.get());
  if (segment) refuse_break(*segment);
  if (segment && options_.guard_filter) filter_guards(options_.guard_filter.get(), *segment);
  if (segment) learn(policy, *segment);
  if (segment && rebinds()) [[unlikely]]
    segment = rebound(std::move(segment), frame);
  return segment;
}

runtime::Terms Capturer::terms() {
  if (!(options_.terms || options_.shares) || rebinds()) return {};
  uint64_t all = 0, of_captures = 0;
  apart_or_throw([&] {
    const Settings now = settings_now(options_.terms & 1);
    all = now.all, of_captures = now.of_captures;
  });
  runtime::Terms terms;
  if (options_.terms && all) terms.own = options_.terms << 32 | all;
  if (options_.shares && of_captures && judges_effects().empty())
    terms.captures = number_of(options_.contract, options_.dynamic) << 32 | of_captures;
  return terms;
}

bool Capturer::can_hand_over(const plan::Segment& segment, const std::vector<Owned<>>& inputs) {
  const std::shared_ptr<const backend::KeptGraph> kept = backend::kept_graph(segment);
  return kept && kept->describes(inputs);
}

bool Capturer::hand_over(const runtime::FrameView& frame, plan::Segment& segment, const std::vector<Owned<>>& inputs) {
  const std::shared_ptr<const backend::KeptGraph> kept = backend::kept_graph(segment);
  if (!kept || !kept->describes(inputs)) return false;    // code ran since it was asked
  const Owned<> sources = share(segment.guards.basis());  // of the graph; guards required later have others
  const std::shared_ptr<Point> point = point_of(frame);
  Compilation compilation(frame);
  Report report(frame, point->ids);
  report.takes(segment.compile_id);
  segment.compile_id = report.id();
  const backend::CallInputs of_call = backend::call_inputs(kept->record(), kept->graph(), inputs);
  try {
    const CapturedForPython captured(kept->graph(), kept->record(), of_call, segment);
    const bool compiled = aten::keeping_modes(
        [&] { return compile(options_.backend.get(), kept->graph(), inputs, captured, segment, report); });
    if (!compiled) return false;
    refuse_break(segment);
  } catch (const trace::NeedsConstant&) {
    return false;  // the new capture will learn of it again
  } catch (const PythonError&) {
    report.failed();
    throw;
  }
  segment.terms = frame.terms.own;
  learn(point->policy, segment);
  report.captured(&segment);
  compilation.finish();
  if (frame.offset == 0) warn_of_settings();
  return true;
}

bool Capturer::taken(const runtime::FrameView& frame, plan::Segment& segment) {
  learn(point_of(frame)->policy, segment);
  if (!has_listeners()) return false;
  tell_shared(frame, segment);
  return true;
}

/// A function that each call makes anew fails a guard on its identity. Later captures guard its code instead.
void Capturer::missed(const runtime::FrameView& frame, const plan::Segment& segment) {
  trace::Policy& policy = point_of(frame)->policy;
  for (const guards::Fact& fact : segment.guards.description().facts)
    if (fact.kind == guards::Kind::Identity && PyFunction_Check(fact.object.get()) && trace::may_vary(fact.source))
      policy.held.try_emplace(fact.source->path, trace::Held{fact.object.get(), code_of(fact.object.get())});
}

bool Capturer::outlasts(plan::Segment& segment) {
  if (!portable::holds_only_lasting(segment)) return false;
  const std::shared_ptr<const backend::KeptGraph> kept = backend::kept_graph(segment);
  const auto lasts = [](const Owned<>& object) { return portable::lasts(object.get()); };
  if (kept && !std::ranges::all_of(kept->objects(), lasts)) backend::drop_graph(segment);
  return true;
}

bool Capturer::may_capture() const { return !captures_are_disabled(); }

int Capturer::recompile_limit() const { return api::recompile_limit(options_.recompile_limit); }

bool Capturer::wants_reasons() const { return has_listeners() || recompiles_are_logged() || is_recompile_error(); }

void Capturer::recompiling(const runtime::FrameView& frame, const std::vector<runtime::Missed>& missed) {
  const plan::CompileId id = point_of(frame)->ids.next();
  if (has_listeners()) tell_recompile(frame, missed, id);
  if (recompiles_are_logged()) log_recompile(frame, missed, id);
  if (!is_recompile_error()) return;
  std::string message =
      "Recompiling function " + place_of(frame) + "\n    triggered by the following guard failure(s):";
  for (const runtime::Missed& each : missed) message += "\n    - " + each.why.text;
  raise(share(of_torch::object(of_torch::RecompileError)), message);
}

bool Capturer::limit_reached(const runtime::FrameView& frame, int limit, const Mismatch& failing) {
  const bool refused = fullgraph() || is_recompile_limit_error();
  if (has_listeners()) tell_limit(frame, limit, failing, point_of(frame)->ids.take());
  Owned<> told = take(PyObject_CallFunction(imported("gramme._words", "recompile_limit").get(), "iOiOss", limit,
                                            frame.code, bytecode::decode(frame.code).line(frame.offset),
                                            first_of(frame), failing.text.c_str(), failing.hint()));
  std::string message = text(told.get());
  if (refused) raise(imported("gramme.errors", "recompile_limit_error"), message);
  check(PyErr_WarnEx(PyExc_RuntimeWarning, (message + " Other calls of the function run uncompiled (eager).").c_str(),
                     1));
  return true;
}

}  // namespace gramme::api
