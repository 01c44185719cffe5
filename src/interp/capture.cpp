// The loop over attempts: run, and on failure learn (specialise a number, stop earlier, do something for real) and run
// again, until a segment can be made and compiled.
#include "interp/capture.h"

#include <algorithm>

#include "aten/classes.h"
#include "base/imported.h"
#include "interp/attempt.h"
#include "interp/module_path.h"
#include "meta/infer.h"
#include "torch/names.h"
#include "trace/finish.h"
#include "trace/prepared.h"

namespace gramme::interp {

using namespace value;
using trace::End;
using trace::Trace;

namespace {

std::vector<Owned<>> example_inputs(const Trace& trace) {
  std::vector<Owned<>> inputs;
  for (const graph::Node* node : trace.scope().graph().placeholders())
    inputs.push_back(share(trace.scope().inputs().object(node)));
  for (int classed : trace::classed_inputs(trace)) {  // the graph receives plain tensors
    Owned<>& input = inputs.at(static_cast<size_t>(classed));
    input = take(aten::plain_example(input.get()).release());
  }
  return inputs;
}

/// Has the graph compiled in the thread state in which it will be called, and restores that state if the backend
/// raises.
bool compile_graph(Trace& trace, const Compile& compile, plan::Segment& segment) {
  trace.scope().modes().put_back();
  if (trace.scope().graph().empty() && trace.contract.runs) return true;
  return aten::keeping_modes([&] { return compile(trace, example_inputs(trace), segment); });
}

/// A segment that does nothing and leaves the frame as it is.
std::unique_ptr<plan::Segment> idle(const Start& start, plan::GuardDescription guards, plan::ExitKind exit,
                                    plan::Ending ending) {
  auto segment = std::make_unique<plan::Segment>(std::move(guards));
  segment->start = start.offset;
  segment->exit.kind = exit;
  segment->exit.offset = start.offset;
  segment->exit.exception = plan::kKeep;
  segment->exit.frame_unchanged = true;
  segment->ending = std::move(ending);
  return segment;
}

/// A segment that runs the frame uncompiled under the attempt's guards: the program's exception leaves it before
/// anything is computed, or a long loop is better run for real.
std::unique_ptr<plan::Segment> hand_over(const Start& start, Attempt& attempt,
                                         plan::Ending ending = {"raises", "", ""}) {
  plan::GuardDescription guards = trace::describe_guards(attempt.trace, attempt.trace.facts.all(), {});
  auto segment = idle(start, std::move(guards), plan::ExitKind::HandOver, std::move(ending));
  segment->iterates = attempt.trace.iterates();
  return segment;
}

std::string text_of(PyObject* text) {
  if (const char* utf8 = PyUnicode_AsUTF8(text)) return utf8;
  PyErr_Clear();
  return "?";
}

/// The module's path; for a module taken from an iterator, the place where the program keeps it.
std::string module_path(const Start& start, const graph::ModuleCall& call) {
  const std::string path = call.path->print();
  if (path.find("list(") == path.npos) return path;
  const std::string found = path_from_frames(start, call.identity);
  return found.empty() ? path : found;
}

plan::Ending describe_ending(const CannotCapture& reason, const Start& start, Attempt& attempt) {
  Interpreter& interp = attempt.interp;
  plan::Ending ending{reason_text(reason.reason), reason.detail, reason_hint(reason.reason, reason.detail)};
  ending.kind = reason_name(reason.reason);
  ending.unbacked = reason.reason == Reason::UnbackedCondition || reason.reason == Reason::UnbackedNumber;
  ending.line = interp.root_line();
  auto [code, line] = interp.stopped_in();
  ending.file = text_of(code->co_filename);
  ending.function = text_of(code->co_qualname);
  ending.inner_line = line;
  ending.operation = attempt.trace.scope().refused_by();
  if (const graph::ModuleCall* call = interp.stopped_module()) ending.module = module_path(start, *call);
  for (size_t i = start.callers.size(); i-- > attempt.returned();)
    ending.stack.emplace_back(share(reinterpret_cast<PyObject*>(start.callers[i].code)), start.callers[i].unit);
  for (const auto& [frame_code, unit] : interp.stopped_stack()) ending.stack.emplace_back(frame_code, unit);
  return ending;
}

/// The exception that the program raises, and where.
plan::Ending describe_raise(const UserError& error) {
  plan::Ending ending{"raises", "", ""};
  ending.raises = true;
  auto* exception = as<Object>(error.exception);
  if (!exception) return ending;
  ending.detail = exception->type->tp_name;
  auto* args = exception->payload ? as<Tuple>(exception->payload) : nullptr;  // null for an existing exception
  if (args && !args->items.empty() && args->items[0]->kind == Kind::Constant && PyUnicode_Check(args->items[0]->object))
    ending.detail += ": " + text_of(args->items[0]->object);
  if (exception->passed.empty()) return ending;
  const Passed& innermost = exception->passed.front();
  ending.line = exception->passed.back().line;
  ending.file = text_of(innermost.frame->object()->co_filename);
  ending.function = text_of(innermost.frame->object()->co_qualname);
  ending.inner_line = innermost.line;
  for (size_t i = exception->passed.size(); i-- > 0;)
    ending.stack.emplace_back(share(reinterpret_cast<PyObject*>(exception->passed[i].frame->object())),
                              exception->passed[i].unit);
  return ending;
}

/// A segment that only carries out the next instruction for real.
std::unique_ptr<plan::Segment> step_over(const Start& start, const Trace& trace, plan::Ending ending) {
  plan::GuardDescription guards{std::make_shared<source::Pool>(), {}, {}, trace.scope().modes().at_start()};
  return idle(start, std::move(guards), plan::ExitKind::Concrete, std::move(ending));
}

/// Makes the numbers constants in the next attempt and in later captures. False if all were constants already.
bool specialize(trace::Policy& policy, const std::vector<const source::Source*>& sources) {
  bool learned = false;
  for (const source::Source* source : sources) learned |= policy.specialized.insert(source->path).second;
  return learned;
}

/// The same for all numbers that the attempt specialised; floats that are 0 are constants only while they are 0.
bool specialize(trace::Policy& policy, const Trace& trace) {
  std::vector<const source::Source*> always;
  bool learned = false;
  for (const source::Source* source : trace.numbers.specialized())
    if (std::ranges::find(trace.numbers.zeros(), source) == trace.numbers.zeros().end())
      always.push_back(source);
    else
      learned |= policy.zeros.insert(source->path).second;
  return specialize(policy, always) || learned;
}

/// True if an input of the graph is a number that was later needed as a constant.
bool takes_specialized(const Trace& trace) {
  const auto& specialized = trace.numbers.specialized();
  const auto& inputs = trace.scope().graph().placeholders();
  return !specialized.empty() && std::any_of(inputs.begin(), inputs.end(), [&](const graph::Node* input) {
    return std::find(specialized.begin(), specialized.end(), input->source) != specialized.end();
  });
}

/// Makes sizes and ints that the guards fix to one value constants in the next run. False if there are none.
bool fix(trace::Policy& policy, Trace& trace, std::vector<size_t>& needed) {
  bool learned = false;
  for (const trace::Shapes::Fixed& fixed : trace.shapes.fixed()) {
    if (const std::string why = trace.shapes.violation(fixed.source); !why.empty()) {
      PyErr_SetString(of_torch::object(of_torch::ConstraintViolationError), why.c_str());
      throw PythonError();
    }
    learned |= policy.fixed.insert(fixed.source->path).second;
    if (fixed.needed) needed.push_back(fixed.source->path);
  }
  return learned;
}

/// Makes varying sizes that are 1 constants in the next run, because a failure at size 1 must not end the segment early
/// for other sizes.
bool fix_ones(trace::Policy& policy, const Trace& trace) {
  bool learned = false;
  for (const source::Source* size : trace.shapes.ones()) learned |= policy.fixed.insert(size->path).second;
  return learned;
}

/// Makes a size that several captures needed as a constant one permanently.
void note_needed(trace::Policy& policy, const std::vector<size_t>& needed) {
  for (size_t path : needed)
    if (++policy.times_fixed[path] >= trace::kTimesFixed) policy.specialized.insert(path);
}

/// Counts the segments that were specialised for a value of a float.
void note_floats(trace::Policy& policy, const std::unordered_set<size_t>& needed, const plan::Segment& segment) {
  for (const guards::Fact& fact : segment.guards.description().facts) {
    const size_t path = fact.source->path;
    const bool is_float = fact.kind == guards::Kind::Constant && PyFloat_CheckExact(fact.object.get());
    if (is_float && (needed.contains(path) || policy.times_fixed.contains(path))) ++policy.times_fixed[path];
  }
}

/// Facts because of which the segment ends where it does; later attempts stop before they meet them.
struct Grounds {
  std::shared_ptr<source::Pool> pool;  // owns the facts' sources
  std::vector<guards::Fact> facts;
};

/// True if every segment that starts at this place can read the source.
bool is_readable(const source::Source* source) {
  using source::Kind;
  if (source->base) return source::place(source->kind) == source::Place::Child && is_readable(source->base);
  if (source->kind == Kind::Pinned || source->kind == Kind::Module) return true;
  const bool of_frame = source->kind == Kind::Local || source->kind == Kind::Stack || source->kind == Kind::Function;
  return of_frame && source::frame_of(source->index) == 0;
}

Grounds grounds_of(const Trace& trace) {
  const source::Source* absent = trace.refuses_without();
  if (!absent || !is_readable(absent)) return {};
  Grounds grounds{trace.pool, {{absent, guards::Kind::Absent, {}}}};
  for (const guards::Fact& fact : trace.facts.all()) {
    const guards::Operand operand = guards::operand(fact.kind);
    if (operand == guards::Operand::Other || operand == guards::Operand::Spec) continue;
    for (const source::Source* above = absent->base; above; above = above->base)
      if (fact.source == above) grounds.facts.push_back(fact);
  }
  return grounds;
}

/// The facts with their sources moved to the pool.
std::vector<guards::Fact> said_of(source::Pool& pool, std::vector<guards::Fact> facts) {
  for (guards::Fact& fact : facts) fact.source = pool.same(fact.source);
  return facts;
}

constexpr int kMostRuns = 3;  // attempts of a capture that sizes turned into constants

/// The last step at which the segment can end before what the attempt failed at.
size_t last_step(const Attempt& attempt) {
  return std::min({attempt.interp.resumable_step(), attempt.interp.raise_step, attempt.trace.progress.stops_at()});
}

/// For a program that raises: true if only the raising instruction runs for real and earlier operations stay in a
/// graph. Not under compilers. Their program may refuse operations with other messages, or accept what eager operators
/// refuse.
bool keeps_what_came_before(const Attempt& attempt) {
  const trace::Policy& policy = attempt.trace.policy;
  return policy.contract.as_is && policy.contract.breaks && attempt.trace.scope().graph().length() != 0;
}

/// True for reasons that an earlier effect caused. Then the segment ends before the effect, since advancing an iterator
/// for real costs less than running an operation outside of graphs.
bool comes_too_late(Reason reason) { return reason == Reason::OperatorMayRaise || reason == Reason::LateEffect; }

}  // namespace

std::unique_ptr<plan::Segment> capture(const Start& start, trace::Policy& policy, const Compile& compile) {
  const meta::OutcomesOfCapture outcomes;
  size_t stop_at = policy.stop_at;
  plan::Ending ending;
  Grounds grounds;
  policy.fixed.clear();
  policy.late_hooks.clear();
  if (policy.general)
    for (const auto& [path, times] : policy.times_fixed) policy.specialized.erase(path);
  std::vector<size_t> needed;
  std::unordered_set<size_t> needed_floats;
  int runs = 1;
  // Chooses an earlier end. Returns what becomes of the frame if there is none.
  auto refused = [&](Attempt& attempt, const CannotCapture& reason) -> std::optional<std::unique_ptr<plan::Segment>> {
    if (reason.reason == Reason::OperatorFailed && fix_ones(policy, attempt.trace)) return std::nullopt;
    const bool raises = reason.reason == Reason::OperatorFailed || reason.reason == Reason::Uninitialized;
    if (raises && !policy.contract.breaks && policy.contract.runs) return hand_over(start, attempt);
    if (ending.reason.empty()) ending = describe_ending(reason, start, attempt);
    grounds = grounds_of(attempt.trace);
    if (reason.reason == Reason::Budget && policy.contract.breaks) return hand_over(start, attempt, ending);
    bool rebuilding = reason.reason == Reason::ReplayUnsupported;
    size_t step = last_step(attempt);
    if (comes_too_late(reason.reason)) step = std::min(step, attempt.interp.advance_step());
    if (rebuilding && stop_at != SIZE_MAX)
      step = std::min(step, attempt.step_below() != SIZE_MAX ? attempt.step_below() : stop_at / 2);
    if (stop_at == 0) return step_over(start, attempt.trace, ending);
    stop_at = std::min(step, stop_at - 1);
    return std::nullopt;
  };
  for (;;) {
    Attempt attempt(start, policy, stop_at);
    try {
      std::optional<End> end = attempt.run();
      if (!end) {
        if (auto segment = refused(attempt, attempt.interp.refusal())) return std::move(*segment);
        continue;
      }
      attempt.trace.exceptions.settle(attempt.trace.inliner);
      if (runs < kMostRuns && fix(policy, attempt.trace, needed)) {
        ++runs;
        continue;
      }
      std::unique_ptr<plan::Segment> segment = trace::finish(attempt.trace, *end);
      if (!grounds.facts.empty()) segment->guards.require(said_of(*attempt.trace.pool, grounds.facts));
      attempt.check_generators();
      for (const source::Source* number : attempt.trace.numbers.specialized()) needed_floats.insert(number->path);
      for (const source::Source* number : attempt.trace.numbers.zeros()) needed_floats.erase(number->path);
      if (takes_specialized(attempt.trace) && specialize(policy, attempt.trace)) continue;
      for (const source::Source* number : attempt.trace.numbers.varying()) policy.dynamic.insert(number->path);
      note_needed(policy, needed);
      note_floats(policy, needed_floats, *segment);
      segment->start = start.offset;
      segment->steps = attempt.interp.steps_begun();
      segment->ending = ending;
      if (compile_graph(attempt.trace, compile, *segment)) return segment;
      return hand_over(start, attempt, {"the backend takes no such graph", "", ""});
    } catch (const CannotCapture& reason) {
      if (auto segment = refused(attempt, reason)) return std::move(*segment);
    } catch (const trace::NeedsConstant& needed) {
      bool learned = specialize(policy, needed.sources);
      policy.told_by_backend |= needed.by_backend;
      for (const source::Source* source : needed.sources) learned |= policy.fixed.insert(source->path).second;
      if (!learned) GRAMME_BUG("specialised twice: " + needed.sources.front()->print());
    } catch (const trace::Prepared&) {
      // Objects that the attempt looked at have changed, so it starts again.
    } catch (const trace::HookLeaves& hook) {
      if (!policy.late_hooks.insert(hook.step).second) GRAMME_BUG("a hook is registered twice");
    } catch (const UserError& error) {
      if (fix_ones(policy, attempt.trace)) continue;
      const size_t step = last_step(attempt);
      if (ending.reason.empty()) ending = describe_raise(error);
      if (step == 0 || !keeps_what_came_before(attempt)) return hand_over(start, attempt, ending);
      stop_at = std::min(step, stop_at - 1);
    }
  }
}

}  // namespace gramme::interp
