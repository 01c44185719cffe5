// Captures at a resume point of a live frame: whether to capture, limits and failures, and the new segment's first run.
#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "aten/dispatched.h"
#include "aten/state.h"
#include "base/error.h"
#include "base/interruption.h"
#include "base/signals.h"
#include "base/text.h"
#include "runtime/chain.h"
#include "runtime/recording.h"
#include "runtime/sharing.h"
#include "runtime/stance.h"

namespace gramme::runtime {
namespace {

/// Scope of a capture: other threads leave the resume point alone, and entries that this thread calls run uncompiled.
class CaptureScope {
 public:
  explicit CaptureScope(ResumePoint& point) : point_(point) { point.capturing = true; }
  ~CaptureScope() { point_.capturing = false; }
  CaptureScope(const CaptureScope&) = delete;

 private:
  ResumePoint& point_;
  Capturing capturing_;
};

constexpr int kFailuresBeforeFreeze = 2;
constexpr int kLevelsToCapture = 300;  // of recursion: the imports of a first capture take some 250

/// Warns of a defect in gramme. The program's behaviour must not change, so the frame then runs uncompiled.
bool warn(const char* what, PyCodeObject* code, int line) {
  return PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "gramme runs %U (%U:%d) uncompiled (eager): %s", code->co_qualname,
                          code->co_filename, line, what) == 0;
}

/// True if the segment ends before its first instruction, without having done anything.
bool ends_at_once(const plan::Segment& segment, int offset) {
  return segment.exit.kind == plan::ExitKind::Concrete && segment.exit.offset == offset &&
         segment.exit.pushed.empty() && segment.exit.callers.empty() && segment.operations == 0 &&
         segment.replay.ops.empty();
}

/// Throws if a segment ends where the frame cannot be resumed: a defect of the capturer.
void check_place(const bytecode::Code& code, int offset, size_t depth) {
  const int units = code.instructions().back().next;
  const int index = offset >= 0 && offset < units ? code.index_of(offset) : -1;
  if (index < 0) GRAMME_BUG("a segment ends inside an instruction, at " + std::to_string(offset));
  const bytecode::Instruction& next = code.instructions()[static_cast<size_t>(index)];
  if (next.offset != offset || !(next.resumable || offset == 0))
    GRAMME_BUG(std::string("a segment ends where no frame can be resumed, at ") + opcode::name(next.op));
  if (static_cast<int>(depth) > code.max_stack()) GRAMME_BUG("a segment leaves too much on the stack");
}

void check_exit(const plan::Segment& segment, const bytecode::Code& code) {
  const plan::Exit& exit = segment.exit;
  if (exit.kind == plan::ExitKind::Return) return;
  const bytecode::Code& ends_in = exit.callers.empty() ? code : bytecode::decode(exit.callers.back().code.get());
  check_place(ends_in, exit.offset, exit.stack.size());
  for (const plan::PushedFrame& frame : exit.pushed)
    check_place(bytecode::decode(frame.code.get()), frame.offset, static_cast<size_t>(frame.depth));
}

}  // namespace

constinit thread_local Capturing::Thread Capturing::thread_;

/// Names the first guard that fails. Sources in calling frames can be read only if the callers are those of the
/// capture.
Mismatch Chain::why_not(const plan::Segment& segment) {
  if (is_called_from(segment)) return segment.guards.explain(roots());
  return {Mismatched::Caller, "", "the function is called from another place"};
}

bool Chain::allowed_by_stance(ResumePoint& point) {
  switch (stances->now) {
    case Stance::Default:
    case Stance::ForceBackend:
    case Stance::AotEagerThenCompile:
      return true;
    case Stance::ForceEager:
    case Stance::EagerOnRecompile:
      return false;
    case Stance::EagerThenCompile:
      if (frame_.next() != 0 || std::exchange(point.looked_at, true)) return true;
      family_->capturer().look(view());
      return false;
    case Stance::SkipGuards:
      PyErr_SetString(
          PyExc_RuntimeError,
          "Recompilation triggered with skip_guard_eval_unsafe stance. This usually means that you have not "
          "warmed up your model with enough inputs such that you can guarantee no more recompilations.");
      throw PythonError();
    case Stance::FailOnRecompile:
      break;
  }
  std::string text = "Detected recompile when torch.compile stance is 'fail_on_recompile'. filename: '" +
                     utf8_of(frame_.code()->co_filename) + "', function name: '" + utf8_of(frame_.code()->co_name) +
                     "', line number: " + std::to_string(code().line(instruction().at));
  if (!point.segments.empty()) text += "\n    triggered by the following guard failure(s):";
  for (const SegmentPtr& segment : point.segments) text += "\n    - " + why_not(*segment).text;
  PyErr_SetString(PyExc_RuntimeError, text.c_str());
  throw PythonError();
}

bool Chain::may_capture(ResumePoint& point) {
  if (point.frozen || point.capturing || capturing() || aten::jit_tracing()) return false;
  if (!cpython::has_recursive_calls(thread_, kLevelsToCapture)) return false;
  if (stances->now != Stance::Default && !allowed_by_stance(point)) return false;
  Capturer& capturer = family_->capturer();
  if (!capturer.may_capture()) return false;
  const int limit = capturer.recompile_limit();
  if (point.confined() < limit) return true;
  if (capturer.generalize(view())) return true;
  point.frozen = taken_ && !point.has_graph();  // a callee without a graph: the user asked for none here
  if (point.frozen) return false;
  CaptureScope scope(point);  // limit_reached() warns, which may run any Python
  const Mismatch failing = point.segments.empty() ? Mismatch() : why_not(*point.segments.front());
  point.frozen = capturer.limit_reached(view(), limit, failing);
  return !point.frozen;
}

void Chain::tell_reasons(const ResumePoint& point) {
  Capturer& capturer = family_->capturer();
  if (point.segments.empty() || !capturer.wants_reasons()) return;
  std::vector<Missed> missed;
  for (const SegmentPtr& segment : point.segments) missed.push_back({segment->compile_id, why_not(*segment)});
  capturer.recompiling(view(), missed);
}

/// True if the segment ends where it could have continued in one of these callers.
bool returns_early(const plan::Segment& segment, size_t callers) {
  return segment.exit.kind == plan::ExitKind::Return && segment.exit.callers.size() < callers;
}

/// Removes the segments that cannot serve this call, whatever their guards say.
void Chain::leave_out_unfit(const ResumePoint& point, std::vector<SegmentPtr>& segments) {
  const size_t callers = point.returns ? view().callers.size() : 0;  // a capture here would continue in them
  std::erase_if(segments, [&](const SegmentPtr& each) {
    return (callers && returns_early(*each, callers)) || !is_called_from(*each) || !lets_go_quietly(*each);
  });
}

FrameView Chain::view_of_capture(const ResumePoint& point, const Terms& terms) {
  FrameView frame = view();
  if (!point.returns) frame.callers.clear();
  frame.iterates = point.iterates;
  frame.terms = terms;
  return frame;
}

/// Looks for a segment of another entry of the same code that fits this call, and binds a copy to this entry's objects.
void Chain::take_shared(ResumePoint& point, const Terms& terms, New& found) {
  const std::vector<SegmentPtr> known = shared_segments(table(), point, terms);
  std::vector<SegmentPtr> fit = known;
  leave_out_unfit(point, fit);
  const plan::Roots now = roots();
  for (const SegmentPtr& each : fit) {
    if (!each->guards.may_hold(now)) continue;
    const SegmentPtr mine = copied(*each);
    found.run.emplace().begin(mine);
    if (!found.run->check(now, found.dropped)) continue;
    mine->terms = terms.own;
    family_->count(&Counters::shared);
    mine->number = family_->counters.captures + family_->counters.shared;
    found.segment = mine;
    found.checked = !family_->capturer().taken(view(), *mine);
    return;
  }
  for (const SegmentPtr& each : known) family_->capturer().missed(view(), *each);
  found.run.reset();
  const plan::Dropped dropped = std::move(found.dropped);
}

/// Looks for another backend's segment that fits this call. Returns a copy whose graph this entry's backend has
/// compiled.
SegmentPtr Chain::hand_over(ResumePoint& point, const Terms& terms) {
  std::vector<SegmentPtr> known = segments_with_graphs(table(), point, terms);
  leave_out_unfit(point, known);
  plan::Dropped dropped;
  for (const SegmentPtr& each : known) {
    const plan::Roots now = roots();
    if (!each->guards.may_hold(now)) continue;
    std::vector<Owned<>> inputs;
    {
      SegmentRun trial;
      trial.begin(copied(*each));
      if (!trial.check(now, dropped)) continue;
      for (int input : each->graph_inputs) inputs.push_back(share(trial.value(input)));
    }
    if (!family_->capturer().can_hand_over(*each, inputs)) continue;
    CaptureScope scope(point);
    tell_reasons(point);
    SegmentPtr mine = copied(*each);
    if (!family_->capturer().hand_over(view_of_capture(point, terms), *mine, inputs)) return nullptr;
    family_->count(&Counters::shared);
    mine->number = family_->counters.captures + family_->counters.shared;
    return mine;
  }
  return nullptr;
}

SegmentPtr Chain::make_segment(ResumePoint& point, const Terms& terms) {
  family_->count(&Counters::captures);
  const uint64_t number = family_->counters.captures + family_->counters.shared;
  CaptureScope scope(point);
  tell_reasons(point);
  FrameView frame = view_of_capture(point, terms);
  frame.rehearses = stances->now == Stance::AotEagerThenCompile && !std::exchange(point.looked_at, true);
  SegmentPtr segment = family_->capturer().capture(frame);
  if (!segment) return segment;
  check_exit(*segment, code());
  segment->number = number;
  return segment;
}

/// Finds a segment of another entry for this call, or else captures one.
void Chain::find_segment(ResumePoint& point, New& found) {
  const bool shares = stances->now == Stance::Default && !stances->guards_together;
  const Terms terms = shares ? family_->capturer().terms() : Terms();
  if (terms.own || terms.captures) take_shared(point, terms, found);
  if (found.segment) return;
  if (terms.captures) found.segment = hand_over(point, terms);
  if (!found.segment) found.segment = make_segment(point, terms);
}

Chain::Turn Chain::capture(ResumePoint& point) {
  New found;
  try {
    const SignalsHeld held;
    if (!may_capture(point)) return Turn::Evaluate;
    find_segment(point, found);
  } catch (const PythonError&) {
    return raise_or_abandon();
  } catch (const std::exception& error) {
    found.segment.reset();
    if (PyErr_Occurred() && is_interruption()) return raise_here();
    PyErr_Clear();
    point.frozen = ++point.failures >= kFailuresBeforeFreeze;
    if (!warn(error.what(), frame_.code(), code().line(instruction().at))) return raise_or_abandon();
  }
  return found.segment ? run_new(point, found) : Turn::Evaluate;
}

/// Raises an interruption at the frame's place; any other exception that is set leaves the frame past its handlers.
Chain::Turn Chain::raise_or_abandon() { return is_interruption() ? raise_here() : abandon(); }

/// Runs handlers of signals that arrived during the capture. They may change anything, so the lookup starts again.
Chain::Turn Chain::handle_signals() {
  try {
    look_for_signals();
    return Turn::Again;
  } catch (const Interrupted&) {
    return raise_here();
  }
}

/// Measures what the guards cost a hit: the shortest of a few checks, in total and by part.
void Chain::measure_checks(const SegmentPtr& segment) {
  using Clock = std::chrono::steady_clock;
  constexpr int kTimes = 8;
  Clock::duration shortest = Clock::duration::max();
  for (int i = 0; i < kTimes; ++i) {
    SegmentRun trial;
    plan::Dropped dropped;
    trial.begin(segment);
    const plan::Roots seen = roots();
    const Clock::time_point start = Clock::now();
    if (!trial.check(seen, dropped)) return;
    shortest = std::min(shortest, Clock::now() - start);
  }
  segment->check_seconds = std::chrono::duration<double>(shortest).count();
  plan::Dropped dropped;
  segment->guards.measure(roots(), dropped);
}

Chain::Turn Chain::run_new(ResumePoint& point, New& found) {
  const SegmentPtr segment = found.segment;
  if (!found.checked) {
    if (Recording::current()) measure_checks(segment);
    found.run.emplace().begin(segment);
  }
  if (!found.checked && !found.run->check(roots(), found.dropped)) {  // a compile takes long and lets other threads run
    if (++point.failures < kFailuresBeforeFreeze) return Turn::Evaluate;
    point.frozen = true;
    const std::string why = "what it depends on changed while it was captured: " + why_not(*segment).text;
    return warn(why.c_str(), frame_.code(), code().line(instruction().at)) ? Turn::Evaluate : raise_or_abandon();
  }
  point.steps = ends_at_once(*segment, point.offset);
  point.steps_into_callee = point.steps && segment->exit.capture_callee;
  point.failures = 0;
  point.add(segment);
  point.restrain(family_->capturer().recompile_limit());
  table().binder.note_reads(*segment, frame_.code());
  return signals_wait() ? handle_signals() : run_segment(*found.run);
}

}  // namespace gramme::runtime
