// The vectorcall path of an entry: bind the arguments, try the segments that cover the whole call, and otherwise call
// the function with a hook that catches its frame. Also the calls that take another way: generators, uncompiled runs,
// set_stance.
#include "runtime/call.h"

#include <optional>
#include <string_view>

#include "aten/dispatched.h"
#include "aten/state.h"
#include "base/imported.h"
#include "base/interruption.h"
#include "base/process.h"
#include "base/stack.h"
#include "cpython/evaluator.h"
#include "cpython/generators.h"
#include "cpython/objects.h"
#include "runtime/chain.h"
#include "runtime/entry.h"
#include "runtime/guarded.h"
#include "runtime/recording.h"
#include "runtime/stance.h"
#include "torch/names.h"

namespace gramme::runtime {
namespace {

/// Raises what CPython raises at its own recursion limit.
[[gnu::cold]] PyObject* refuse_depth() {
  PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded");
  return nullptr;
}

/// A call whose frame runs as a chain of segments.
struct FrameCall {
  std::shared_ptr<Family> family;
  bool taken = false;
  bool plain = false;  // the frame went to CPython as it was
};

PyObject* run_caught(void* context, PyThreadState* thread, cpython::LiveFrame frame) {
  auto& call = *static_cast<FrameCall*>(context);
  return guarded([&] {
    Chain chain(call.family, thread, frame, call.taken);
    PyObject* result = chain.run();
    call.plain = chain.ran_plainly();
    return result;
  });
}

/// True if a call of the function only makes a generator, coroutine or asynchronous generator.
bool suspends(PyFunctionObject* function) {
  constexpr int kSuspends = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;
  return cpython::code_of(function)->co_flags & kSuspends;
}

bool runs_plainly(PyThreadState* thread) {
  return capturing() || stances->now == Stance::ForceEager || cpython::is_observed(thread);
}

struct State {
  bool told_of_tracer = false;  // GIL, a word
};
OfProcess<State> state;

/// Logs once per process that nothing is captured while a trace function is set. False with an error set if logging
/// failed.
[[gnu::cold]] bool tell_of_tracer(PyThreadState* thread) {
  if (std::exchange(state->told_of_tracer, true)) return true;
  const cpython::Untraced scope(thread);
  return static_cast<bool>(Owned<>::steal(PyObject_CallNoArgs(imported("gramme._words", "tell_of_tracer").get())));
}

/// True if torch.profiler(with_stack=True) is the only observer. It should see compiled code, as it does without
/// stacks.
[[gnu::cold]] bool is_only_profiled(PyThreadState* thread) {
  return !thread->c_tracefunc && thread->c_profileobj &&
         std::string_view(Py_TYPE(thread->c_profileobj)->tp_name) == of_torch::kProfilerContext;
}

/// Runs the frames of a generator as chains of its family's segments. Holds the entry, visibly to the collector.
class FamilyResumes final : public cpython::Resumer {
 public:
  explicit FamilyResumes(PyObject* entry) : entry_(share(entry)) {}
  bool wants(PyThreadState* thread) noexcept override {
    return family_of(entry_.get()) && !runs_plainly(thread) && aten::can_capture() && has_room(Room::Capture);
  }
  PyObject* run(PyThreadState* thread, cpython::LiveFrame frame) noexcept override {
    const std::shared_ptr<Family> family = family_of(entry_.get());
    return run_frame(family, thread, frame, false);
  }
  int traverse(visitproc visit, void* arg) const override {
    Py_VISIT(entry_.get());
    return 0;
  }

 private:
  Owned<> entry_;
};

enum class Answer : uint8_t { Given, NoSegment, Refused };

/// Runs the first segment that covers the whole call and whose guards hold. Refused: its graph raised. No Python runs
/// before a segment has hit, since Python might reset the family or reorder the segments.
Answer answer(const std::shared_ptr<Family>& family, PyThreadState* thread, ResumePoint& start,
              const plan::Roots& roots, PyObject** result, std::unique_ptr<Failure>& failure) {
  plan::Dropped dropped;
  for (size_t i = 0; i < start.segments.size(); ++i) {
    if (start.segments[i]->exit.kind != plan::ExitKind::Return) continue;
    if (!cpython::has_recursive_calls(thread, start.segments[i]->levels)) [[unlikely]]
      continue;
    SegmentRun run;
    run.begin(start.segments[i]);
    if (!run.check(roots, dropped)) continue;
    start.hit(i);
    const GraphResult graph = run.graph(family.get());
    if (graph == GraphResult::Failed) {
      family->count(&Counters::graph_errors);
      failure = run.take_failure();
      return Answer::Refused;
    }
    ++family->counters.frameless;
    *result = nullptr;
    if (graph == GraphResult::Raised) run.raise(roots.function);
    if (graph == GraphResult::Done && run.replay()) *result = Py_NewRef(run.value(run.segment().exit.result));
    if (run.segment().exit.makes_generator && *result) own_generator(family, *result);
    return Answer::Given;
  }
  return Answer::NoSegment;
}

[[gnu::cold]] PyObject* call_plainly(Family& family, PyFunctionObject* function, PyObject* const* args, size_t nargsf,
                                     PyObject* kwnames) {
  std::optional<TimedPlace> timed;
  if (family.count(&Counters::plain)) timed.emplace(cpython::code_of(function), 0, true);
  if (!has_room(Room::Call)) return refuse_depth();
  return PyObject_Vectorcall(reinterpret_cast<PyObject*>(function), args, nargsf, kwnames);
}

/// Runs the call uncompiled after its graph raised.
[[gnu::cold]] PyObject* call_again(const std::shared_ptr<Family>& family, std::unique_ptr<Failure> failure,
                                   PyFunctionObject* function, PyObject* const* args, size_t nargsf,
                                   PyObject* kwnames) {
  PlainRun run(PyThreadState_Get(), std::move(failure), family->capturer().backend());
  return run.finish(call_plainly(*family, function, args, nargsf, kwnames));
}

PyObject* call_suspending(const std::shared_ptr<Family>& family, PyFunctionObject* function, PyObject* const* args,
                          size_t nargsf, PyObject* kwnames) {
  PyObject* made = PyObject_Vectorcall(reinterpret_cast<PyObject*>(function), args, nargsf, kwnames);
  if (made && !own_generator(family, made)) family->count(&Counters::plain);
  return made;
}

/// Warns, once per family, if the first call ran operators but none of them in a graph. False with an error set.
bool look_over(Family& family, PyFunctionObject* function, PyObject* first, uint64_t operators) {
  if (family.looked_over || !(family.counters.captures || family.counters.shared)) return true;
  family.looked_over = true;
  const plan::Ending* why = operators && !family.has_graph() ? family.first_break() : nullptr;
  if (!why) return true;
  auto text = Owned<>::steal(PyObject_CallFunction(
      imported("gramme._words", "nothing_captured").get(), "OOssssi", function, first ? first : Py_None,
      why->reason.c_str(), why->detail.c_str(), why->hint.c_str(), why->file.c_str(), why->inner_line));
  if (text && text.get() == Py_None) return true;
  return text && PyErr_WarnEx(PyExc_RuntimeWarning, PyUnicode_AsUTF8(text.get()), 1) == 0;
}

/// Calls the function, and runs its frame as a chain of segments.
PyObject* call_caught(const std::shared_ptr<Family>& family, PyThreadState* thread, PyFunctionObject* function,
                      PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  FrameCall frame_call{family};
  Counters& counters = frame_call.family->counters;
  const uint64_t captures = counters.captures;
  std::optional<aten::CountsDispatched> counts;
  if (!family->looked_over) counts.emplace();
  const uint64_t before = counts ? aten::dispatched().outside : 0;
  auto result =
      Owned<>::steal(cpython::call_with_frame(thread, function, args, nargsf, kwnames, run_caught, &frame_call));
  if (counters.captures == captures && !frame_call.plain) ++counters.chained;
  PyObject* first = PyVectorcall_NARGS(nargsf) ? args[0] : nullptr;
  if (counts && result && !look_over(*frame_call.family, function, first, aten::dispatched().outside - before))
    return nullptr;
  return result.release();
}

/// Under set_stance(force_backend=): the same function compiled for that backend, with its own cache. None if nothing
/// is to be forced.
[[gnu::cold]] Owned<> forced_form(const Family& family) {
  return take(PyObject_CallOneArg(imported("gramme._policy", "forced").get(), family.entry));
}

[[gnu::hot]] PyObject* call_compiled(const std::shared_ptr<Family>& family, PyFunctionObject* function,
                                     PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  const cpython::TakesNone scope;
  PyThreadState* thread = PyThreadState_Get();
  std::optional<cpython::Untraced> untraced;
  if (cpython::is_observed(thread) && !capturing() && stances->now != Stance::ForceEager) [[unlikely]] {
    if (is_only_profiled(thread))
      untraced.emplace(thread, cpython::Untraced::Profiler::HoldsItsObject);
    else if (family->capturer().fullgraph())  // fullgraph refuses the same code whether or not it is observed
      untraced.emplace(thread);
    else if (!tell_of_tracer(thread))
      return nullptr;
  }
  ++family->counters.calls;
  if (runs_plainly(thread)) return call_plainly(*family, function, args, nargsf, kwnames);
  if (suspends(function)) return call_suspending(family, function, args, nargsf, kwnames);
  CodeTable& table = *family->table(cpython::code_of(function));  // valid as long as no Python runs
  const cpython::Handled handled = cpython::handled_exceptions(thread);
  ResumePoint& start = table.point(0, handling_of(handled));
  if (start.returning && !stances->guards_together) {
    BoundArguments bound(table.code()->co_nlocalsplus);
    if (!table.binder.bind(function, args, PyVectorcall_NARGS(nargsf), kwnames, bound))
      return call_plainly(*family, function, args, nargsf, kwnames);
    PyObject* result;
    std::unique_ptr<Failure> failure;
    switch (answer(family, thread, start, {bound.locals(), nullptr, function, handled.own, handled.outer}, &result,
                   failure)) {
      case Answer::Given:
        return result;
      case Answer::Refused:
        return call_again(family, std::move(failure), function, args, nargsf, kwnames);
      case Answer::NoSegment:
        break;
    }
  }
  if (!has_room(Room::Capture)) return call_plainly(*family, function, args, nargsf, kwnames);
  return call_caught(family, thread, function, args, nargsf, kwnames);
}

/// Compiles the backward passes that run during a call (compiled autograd).
class CompiledBackward {
 public:
  explicit CompiledBackward(const Family& family)
      : leave_(take(PyObject_CallOneArg(imported("gramme._policy", "compiled_backward").get(), family.entry))) {}
  CompiledBackward(const CompiledBackward&) = delete;
  CompiledBackward& operator=(const CompiledBackward&) = delete;
  ~CompiledBackward() {
    if (leave_) apart([&] { leave(); });
  }
  /// Throws PythonError if leaving was interrupted; that error replaces an exception that is set.
  void end() {
    apart_or_throw([&] { leave(); });
  }

 private:
  void leave() { take(PyObject_CallNoArgs(std::exchange(leave_, {}).get())); }

  Owned<> leave_;
};

[[gnu::cold]] PyObject* call_by_detour(const std::shared_ptr<Family>& family, PyFunctionObject* function,
                                       PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  if (!family->entry || capturing()) return call_compiled(family, function, args, nargsf, kwnames);
  if (stances->now == Stance::ForceBackend && !family->forced)
    if (const Owned<> forced = forced_form(*family); forced.get() != Py_None)
      return PyObject_Vectorcall(forced.get(), args, static_cast<size_t>(PyVectorcall_NARGS(nargsf)), kwnames);
  if (!family->compiles_backward) return call_compiled(family, function, args, nargsf, kwnames);
  CompiledBackward backward(*family);
  Owned<> result = Owned<>::steal(call_compiled(family, function, args, nargsf, kwnames));
  backward.end();
  return result.release();
}

}  // namespace

PyObject* run_frame(const std::shared_ptr<Family>& family, PyThreadState* thread, cpython::LiveFrame frame,
                    bool taken) noexcept {
  FrameCall call{family, taken};
  Counters& counters = family->counters;
  const uint64_t captures = counters.captures;
  ++counters.calls;
  PyObject* result = run_caught(&call, thread, frame);
  if (counters.captures == captures && !call.plain) ++counters.chained;
  return result;
}

bool own_generator(const std::shared_ptr<Family>& family, PyObject* made) {
  if (!family->entry || !cpython::can_watch(made) || family->capturer().fullgraph()) return false;
  cpython::watch(made, std::make_unique<FamilyResumes>(family->entry));
  return true;
}

[[gnu::hot]] PyObject* call(const std::shared_ptr<Family>& family, PyFunctionObject* function, PyObject* const* args,
                            size_t nargsf, PyObject* kwnames) noexcept {
  return guarded([&] {
    return stances->detours ? call_by_detour(family, function, args, nargsf, kwnames)
                            : call_compiled(family, function, args, nargsf, kwnames);
  });
}

}  // namespace gramme::runtime
