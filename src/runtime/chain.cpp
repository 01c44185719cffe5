// The loop that takes a live frame from resume point to resume point: find a segment whose guards hold and run it, else
// capture one, else carry out one instruction for real. Captures are in captures.cpp, exits in exits.cpp.
#include "runtime/chain.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "aten/dispatched.h"
#include "aten/state.h"
#include "base/error.h"
#include "base/imported.h"
#include "base/process.h"
#include "base/stack.h"
#include "cpython/dying.h"
#include "cpython/evaluator.h"
#include "cpython/objects.h"
#include "cpython/stack.h"
#include "runtime/call.h"
#include "runtime/recording.h"
#include "runtime/stance.h"
#include "runtime/stand_in.h"

namespace gramme::runtime {
namespace {
constexpr size_t kMostCallers = 24;  // callers that a segment may return into
}  // namespace

Chain::Chain(const std::shared_ptr<Family>& family, PyThreadState* thread, cpython::LiveFrame frame, bool taken)
    : family_(family),
      thread_(thread),
      frame_(frame),
      taken_(taken),
      handled_(share(frame.of_generator() ? nullptr : thread->exc_info->exc_value)) {}

PyObject* Chain::run() {
  cpython::LinkedFrame linked(thread_, frame_);
  if (!linked.entered()) return nullptr;
  if (cpython::is_raising(thread_) && !raise_thrown()) return nullptr;
  const bool calls = pushed_ && index_ + 1 < pushed_->exit().pushed.size();  // its operands are no arguments
  for (bool first = true;; first = false) {
    Turn next = linked.tracing() && !(first && calls) ? Turn::Evaluate : first && pushed_ ? begin() : turn();
    if (next == Turn::Again) continue;
    if (next == Turn::Return) return result_;
    if (next == Turn::Leave) return nullptr;
    if (!make_bool()) {
      if (raise_here() == Turn::Again) continue;
      return nullptr;
    }
    plain_ = frame_.next() == 0;
    std::optional<TimedPlace> timed;
    if (family_->count(plain_ ? &Counters::plain : &Counters::handovers))
      timed.emplace(frame_.code(), frame_.next(), true);
    if (!failure_) return linked.evaluate();
    PlainRun plain(thread_, std::move(failure_), family_->capturer().backend());
    return plain.finish(linked.evaluate());
  }
}

/// Raises the exception thrown into a generator at its yield. False if no handler of the frame takes it.
bool Chain::raise_thrown() {
  return cpython::leave_instruction(thread_, frame_, {cpython::Outcome::Raised, nullptr, frame_.suspended_at()});
}

/// Looked up at first use: a frame that only waits for a callee never needs its table.
CodeTable& Chain::table() {
  if (!table_) table_ = family_->table(frame_.code());
  return *table_;
}

const bytecode::Instruction& Chain::instruction() {
  return code().instructions()[static_cast<size_t>(code().index_of(frame_.next()))];
}

ResumePoint& Chain::point_here() {
  return table().point(frame_.next(), handling_of(cpython::handled_exceptions(thread_)));
}

plan::Roots Chain::roots() {
  callers_roots_.clear();
  callers_roots_.reserve(std::min(depth_, kMostCallers));
  for (Chain* chain = caller_; chain && callers_roots_.size() < kMostCallers; chain = chain->caller_) {
    const cpython::SlotObjects::View slots = chain->slots_.of(chain->frame_);
    callers_roots_.push_back({slots.locals, slots.stack, chain->frame_.function()});
  }
  const cpython::SlotObjects::View slots = slots_.of(frame_);
  const cpython::Handled handled = cpython::handled_exceptions(thread_);
  return {slots.locals,
          slots.stack,
          frame_.function(),
          handled.own,
          handled.outer,
          callers_roots_.data(),
          static_cast<int>(callers_roots_.size())};
}

/// True if the frames that the segment returns into are the ones now waiting for this frame.
bool Chain::is_called_from(const plan::Segment& segment) const {
  const Chain* chain = this;
  for (const plan::Caller& caller : segment.exit.callers) {
    const plan::Gives gives = chain->gives_;
    chain = chain->caller_;
    if (!chain || chain->frame_.code() != caller.code.get() || chain->frame_.current() != caller.unit) return false;
    if (gives != caller.gives) return false;
  }
  return true;
}

namespace {
bool all_die_quietly(cpython::LiveFrame frame, const plan::LetGo& lets_go) {
  for (int slot : lets_go.slots)
    if (!cpython::dies_quietly(frame.local(slot))) return false;
  for (int at : lets_go.stack)
    if (!cpython::dies_quietly(frame.item(frame.depth() - at))) return false;
  return true;
}
}  // namespace

/// True if no object that the segment drops runs code when it dies. Such code would run only after all that the segment
/// does.
bool Chain::lets_go_quietly(const plan::Segment& segment) const {
  const Chain* chain = this;
  for (const plan::Caller& caller : segment.exit.callers) {
    if (!all_die_quietly(chain->frame_, caller.lets_go)) return false;
    chain = chain->caller_;
  }
  return all_die_quietly(chain->frame_, segment.exit.lets_go);
}

FrameView Chain::view() {
  const cpython::SlotObjects::View slots = slots_.of(frame_);
  const cpython::Handled handled = cpython::handled_exceptions(thread_);
  FrameView view{frame_.function(), frame_.code(), slots.locals, frame_.local_count(), slots.stack,
                 frame_.depth(),    frame_.next(), handled.own,  handled.outer};
  for (Chain* chain = this; view.offset && chain->caller_ && view.callers.size() < kMostCallers;
       chain = chain->caller_) {
    const cpython::LiveFrame& frame = chain->caller_->frame_;
    const cpython::SlotObjects::View waiting = chain->caller_->slots_.of(frame);
    view.callers.push_back(
        {frame.function(), frame.code(), waiting.locals, waiting.stack, frame.depth(), frame.current(), chain->gives_});
  }
  return view;
}

namespace {

struct State {
  bool told_of_modes = false;  // GIL, a word
};
OfProcess<State> state;

/// Logs once per process that nothing is captured under a mode that intercepts each operator.
[[gnu::cold]] void tell_of_modes() {
  if (!std::exchange(state->told_of_modes, true))
    take(PyObject_CallNoArgs(imported("gramme._words", "tell_of_modes").get()));
}

}  // namespace

Chain::Turn Chain::turn() {
  const int offset = frame_.next();
  if (offset != 0 && !instruction().resumable) return step(false);
  ResumePoint& point = point_here();
  if (point.steps) return step(point.steps_into_callee);
  SegmentRun run;
  if (stances->guards_together && !point.segments.empty()) [[unlikely]]
    return turn_together();
  if (find_hit(point, run)) return run_segment(run);
  if (aten::can_capture()) return capture(point);
  if (offset != 0) return step(false);  // the frame itself may still leave the mode
  if (aten::is_dispatched_around()) tell_of_modes();
  return Turn::Evaluate;
}

/// The same where all processes of the group decide together, which runs Python.
[[gnu::cold]] Chain::Turn Chain::turn_together() {
  SegmentRun run;
  const bool hit = find_hit(point_here(), run);
  const auto all = Owned<>::steal(
      PyObject_CallFunctionObjArgs(imported("gramme._policy", "all_hit").get(), hit ? Py_True : Py_False, nullptr));
  if (!all) return raise_or_abandon();
  if (all.get() == Py_True && find_hit(point_here(), run)) return run_segment(run);
  return aten::can_capture() ? capture(point_here()) : frame_.next() ? step(false) : Turn::Evaluate;
}

/// Finds the first segment whose guards hold. No Python runs before a hit, since Python might add or reorder segments.
bool Chain::find_hit(ResumePoint& point, SegmentRun& run) {
  plan::Dropped dropped;
  const plan::Roots now = roots();
  for (size_t i = 0; i < point.segments.size(); ++i) {
    if (!is_called_from(*point.segments[i]) || !lets_go_quietly(*point.segments[i])) continue;
    run.begin(point.segments[i]);
    if (!run.check(now, dropped)) continue;
    point.hit(i);
    return true;
  }
  return false;
}

namespace {

/// Calls the callable of a CALL instruction; Python functions run as entries of the same family.
PyObject* call_callee(const void* context, PyObject* callable, PyObject* const* args, size_t nargsf,
                      PyObject* kwnames) {
  const auto& family = *static_cast<const std::shared_ptr<Family>*>(context);
  PyObject *function = callable, *self = nullptr;
  if (PyMethod_Check(callable)) {
    function = PyMethod_GET_FUNCTION(callable);
    self = PyMethod_GET_SELF(callable);
  } else if (!PyFunction_Check(callable) && !PyVectorcall_Function(callable)) {
    static PyObject* const name = intern("__call__");
    function = cpython::type_lookup(Py_TYPE(callable), name);
    self = callable;
  }
  if (!function || !PyFunction_Check(function)) return PyObject_Vectorcall(callable, args, nargsf, kwnames);
  Owned<> keep = share(function);
  auto* target = reinterpret_cast<PyFunctionObject*>(function);
  if (!self) return call(family, target, args, nargsf, kwnames);
  const size_t count = static_cast<size_t>(PyVectorcall_NARGS(nargsf));
  const size_t total = count + static_cast<size_t>(kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
  std::vector<PyObject*> with_self{self};
  with_self.insert(with_self.end(), args, args + total);
  if (PyMethod_Check(callable)) return call(family, target, with_self.data(), count + 1, kwnames);
  PyThreadState* thread = PyThreadState_Get();
  if (!cpython::enter_recursive_call(thread, " while calling a Python object")) return nullptr;
  PyObject* result = call(family, target, with_self.data(), count + 1, kwnames);
  cpython::leave_recursive_call(thread);
  return result;
}

}  // namespace

Chain::Turn Chain::step(bool into_callee) {
  return family_->count(&Counters::steps) ? step_watched(into_callee) : carry_out(into_callee);
}

[[gnu::cold]] Chain::Turn Chain::step_watched(bool into_callee) {
  const TimedPlace timed(frame_.code(), frame_.next(), false);
  return carry_out(into_callee);
}

Chain::Turn Chain::carry_out(bool into_callee) {
  const cpython::CallHook callee{call_callee, &family_};
  const cpython::CallHook* const hook = into_callee ? &callee : stand_in();
  return after(capturing_callees([&] { return cpython::step(thread_, frame_, hook); }));
}

/// Decides what follows an instruction that was carried out for real.
Chain::Turn Chain::after(const cpython::StepResult& result) {
  if (std::exchange(taken_over_, false)) return landing_ ? land() : pass_on();
  switch (result.outcome) {
    case cpython::Outcome::Next:
      return Turn::Again;
    case cpython::Outcome::Returned:
      result_ = result.value;
      return Turn::Return;
    case cpython::Outcome::HandOver:
      return Turn::Evaluate;
    case cpython::Outcome::Raised:
      break;
  }
  return cpython::leave_instruction(thread_, frame_, result) ? Turn::Again : Turn::Leave;
}

/// Runs the graph and replay of a segment that hit. Without room on the stack nothing happens; CPython then runs the
/// frame and raises its own exception.
Chain::Turn Chain::run_segment(SegmentRun& run) {
  if (!has_room_for(run.segment())) return Turn::Evaluate;
  family_->count(&Counters::segments);
  switch (run.graph(family_.get())) {
    case GraphResult::Done:
      break;
    case GraphResult::Failed:
      family_->count(&Counters::graph_errors);
      if (!run.segment().exit.callers.empty()) return again_without_callers(run.segment());
      failure_ = run.take_failure();
      return Turn::Evaluate;
    case GraphResult::Raised:
      family_->count(&Counters::graph_errors);
      return leave_past_handlers(run);
    case GraphResult::Interrupted:
      return raise_here();
  }
  return run.replay() ? leave_by(run) : abandon();
}

/// Raises the exception that is set from the instruction the frame stands at.
Chain::Turn Chain::raise_here() {
  const int at = instruction().at;
  frame_.set_current(at);
  return cpython::leave_instruction(thread_, frame_, {cpython::Outcome::Raised, nullptr, at}) ? Turn::Again
                                                                                              : Turn::Leave;
}

/// Prepares the stack for CPython's evaluator, whose branches may expect a bool where gramme's instruction takes any
/// object. False if the object's truth test raised.
bool Chain::make_bool() {
  if (!cpython::kStack.strict_bool || frame_.next() == 0 || !instruction().wants_bool) return true;
  const int truth = PyObject_IsTrue(frame_.item());
  if (truth < 0) return false;
  frame_.set_item(1, share(truth ? Py_True : Py_False).release());
  return true;
}

/// Lets an exception that the graph raised after an irreversible write leave the frame past its handlers: they would
/// see the variables of the segment's start. A frame that has not begun has no cells yet, so its traceback entry is
/// made here.
Chain::Turn Chain::leave_past_handlers(SegmentRun& run) {
  const bool begun = frame_.next() != 0;
  const int unit = run.raise(begun ? nullptr : frame_.function());
  if (begun) {
    frame_.set_current(unit < 0 ? instruction().at : unit);
    cpython::add_traceback(thread_, frame_);
  }
  frame_.drop(frame_.depth());
  cpython::set_handled_exception(thread_, Owned<>(handled_).release());
  return Turn::Leave;
}

/// Lets the exception that is set leave the frame past all its handlers, because it is not the program's.
Chain::Turn Chain::abandon() {
  frame_.set_current(instruction().at);
  cpython::add_traceback(thread_, frame_);
  frame_.drop(frame_.depth());
  cpython::set_handled_exception(thread_, Owned<>(handled_).release());
  return Turn::Leave;
}

}  // namespace gramme::runtime
