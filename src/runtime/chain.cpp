#include "runtime/chain.h"

#include <optional>
#include <vector>

#include "aten/dispatched.h"
#include "aten/state.h"
#include "base/error.h"
#include "cpython/objects.h"
#include "runtime/call.h"

namespace gramme::runtime {
namespace {

thread_local int capture_depth = 0;

/// While a capture runs: other threads leave the resume point alone, and this thread calls entries plainly.
class CaptureScope {
 public:
  explicit CaptureScope(ResumePoint& point) : point_(point) {
    point.capturing = true;
    ++capture_depth;
  }
  ~CaptureScope() {
    point_.capturing = false;
    --capture_depth;
  }
  CaptureScope(const CaptureScope&) = delete;

 private:
  ResumePoint& point_;
  aten::Uncounted uncounted_;
};

constexpr int kFailuresBeforeFreeze = 2;

/// A defect of ours must not change what the program does: it runs plainly and the user hears of it.
bool warn(const char* what, PyCodeObject* code, int line) {
  return PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "gramme runs %U (%U:%d) plainly: %s", code->co_qualname,
                          code->co_filename, line, what) == 0;
}

/// Did the segment do nothing but end in front of its first instruction?
bool ends_at_once(const plan::Segment& segment, int offset) {
  return segment.exit.kind == plan::ExitKind::Concrete && segment.exit.offset == offset && segment.operations == 0 &&
         segment.replay.ops.empty();
}

/// A frame may only be left where it can be resumed; anything else is a defect of the capturer.
void check_exit(const plan::Segment& segment, const bytecode::Code& code) {
  const plan::Exit& exit = segment.exit;
  if (exit.kind == plan::ExitKind::Return) return;
  const int units = code.instructions().back().next;
  const int index = exit.offset >= 0 && exit.offset < units ? code.index_of(exit.offset) : -1;
  if (index < 0) GRAMME_BUG("a segment ends inside an instruction, at " + std::to_string(exit.offset));
  const bytecode::Instruction& next = code.instructions()[static_cast<size_t>(index)];
  if (next.offset != exit.offset || !(next.resumable || exit.offset == 0))
    GRAMME_BUG(std::string("a segment ends where no frame can be resumed, at ") + bytecode::name(next.op));
  if (static_cast<int>(exit.stack.size()) > code.max_stack()) GRAMME_BUG("a segment leaves too much on the stack");
}

}  // namespace

[[gnu::hot]] bool capturing() { return capture_depth > 0; }

Chain::Chain(const std::shared_ptr<Family>& family, PyThreadState* thread, cpython::LiveFrame frame)
    : family_(family),
      table_(family->table(frame.code())),
      thread_(thread),
      frame_(frame),
      code_(bytecode::decode(frame.code())),
      handled_(share(thread->exc_info->exc_value)) {}

PyObject* Chain::run() {
  cpython::LinkedFrame linked(thread_, frame_);
  if (!linked.entered()) return nullptr;
  for (;;) {
    Turn next = linked.tracing() ? Turn::Evaluate : turn();
    if (next == Turn::Again) continue;
    if (next == Turn::Return) return result_;
    if (next == Turn::Leave) return nullptr;
    plain_ = frame_.next() == 0;
    family_->count(plain_ ? &Counters::plain : &Counters::handovers);
    if (!failure_) return linked.evaluate();
    PlainRun plain(thread_, std::move(failure_), family_->capturer().backend());
    return plain.finish(linked.evaluate());
  }
}

const bytecode::Instruction& Chain::instruction() const {
  return code_.instructions()[static_cast<size_t>(code_.index_of(frame_.next()))];
}

plan::Roots Chain::roots() const {
  return {frame_.locals(), frame_.stack(), frame_.function(), cpython::handled_exception(thread_)};
}

FrameView Chain::view() const {
  return {frame_.function(), frame_.code(),  frame_.locals(), frame_.local_count(),
          frame_.stack(),    frame_.depth(), frame_.next(),   cpython::handled_exception(thread_)};
}

Chain::Turn Chain::turn() {
  const int offset = frame_.next();
  if (offset != 0 && !instruction().resumable) return step(false);
  ResumePoint& point = table_->point(offset, cpython::handled_exception(thread_) != nullptr);
  if (point.steps) return step(point.steps_into_callee);
  std::optional<SegmentRun> run;
  if (find_hit(point, run)) return run_segment(*run);
  if (aten::can_capture()) return capture(point);
  if (offset != 0) return step(false);  // the frame itself may leave the mode again
  return Turn::Evaluate;
}

/// Until a segment has hit no Python runs, which might add segments or reorder them.
bool Chain::find_hit(ResumePoint& point, std::optional<SegmentRun>& run) {
  plan::Dropped dropped;
  for (size_t i = 0; i < point.segments.size(); ++i) {
    run.emplace(point.segments[i]);
    if (!run->check(roots(), dropped)) continue;
    point.hit(i);
    return true;
  }
  return false;
}

namespace {

/// Calls what a CALL calls, with Python functions as entries of the same family.
PyObject* call_callee(void* context, PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
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

cpython::StepResult Chain::carry_out(bool into_callee) {
  const cpython::CallHook hook{call_callee, &family_};
  ResumePoint& point = table_->point(frame_.next(), cpython::handled_exception(thread_) != nullptr);
  CalleesCaptured scope(thread_, callees_, family_, point);
  return cpython::step(thread_, frame_, into_callee ? &hook : nullptr);
}

Chain::Turn Chain::step(bool into_callee) {
  family_->count(&Counters::steps);
  const cpython::StepResult result = carry_out(into_callee);
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

bool Chain::may_capture(ResumePoint& point) {
  if (point.frozen || point.capturing || capture_depth || aten::jit_tracing()) return false;
  Capturer& capturer = family_->capturer();
  const int limit = capturer.recompile_limit();
  if (static_cast<int>(point.segments.size()) < limit) return true;
  CaptureScope scope(point);  // it warns, which may run anything
  std::string failing = point.segments.empty() ? "" : point.segments.front()->guards.explain(roots());
  point.frozen = capturer.limit_reached(view(), limit, failing);
  return !point.frozen;
}

void Chain::tell_reasons(const ResumePoint& point) {
  Capturer& capturer = family_->capturer();
  if (point.segments.empty() || !capturer.wants_reasons()) return;
  std::vector<std::string> failing;
  for (const SegmentPtr& segment : point.segments) failing.push_back(segment->guards.explain(roots()));
  capturer.recompiling(view(), failing);
}

Chain::Turn Chain::capture(ResumePoint& point) {
  SegmentPtr segment;
  try {
    if (!may_capture(point)) return Turn::Evaluate;
    family_->count(&Counters::captures);
    CaptureScope scope(point);
    tell_reasons(point);
    segment = family_->capturer().capture(view());
    if (segment) check_exit(*segment, code_);
  } catch (const PythonError&) {
    return abandon();
  } catch (const std::exception& error) {
    PyErr_Clear();
    segment.reset();
    point.frozen = ++point.failures >= kFailuresBeforeFreeze;
    if (!warn(error.what(), frame_.code(), code_.line(instruction().at))) return abandon();
  }
  return segment ? run_new(point, segment) : Turn::Evaluate;
}

Chain::Turn Chain::run_new(ResumePoint& point, const SegmentPtr& segment) {
  SegmentRun run(segment);
  plan::Dropped dropped;
  if (!run.check(roots(), dropped)) {  // a compile takes long and lets other threads run
    if (++point.failures < kFailuresBeforeFreeze) return Turn::Evaluate;
    point.frozen = true;
    const std::string why = "what it depends on changed while it was captured: " + segment->guards.explain(roots());
    return warn(why.c_str(), frame_.code(), code_.line(instruction().at)) ? Turn::Evaluate : abandon();
  }
  point.steps = ends_at_once(*segment, point.offset);
  point.steps_into_callee = point.steps && segment->exit.capture_callee;
  point.failures = 0;
  point.add(segment);
  table_->binder.note_reads(*segment, frame_.code());
  return run_segment(run);
}

Chain::Turn Chain::run_segment(SegmentRun& run) {
  family_->count(&Counters::segments);
  switch (run.graph(family_.get())) {
    case GraphResult::Done:
      break;
    case GraphResult::Failed:
      family_->count(&Counters::graph_errors);
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

Chain::Turn Chain::leave_by(SegmentRun& run) {
  const plan::Exit& exit = run.segment().exit;
  if (exit.kind == plan::ExitKind::Return) {
    result_ = Py_NewRef(run.value(exit.result));
    if (exit.exception != plan::kKeep) cpython::set_handled_exception(thread_, Py_XNewRef(run.value(exit.exception)));
    for (const plan::SlotWrite& write : exit.locals) Py_CLEAR(frame_.locals()[write.slot]);
    frame_.drop(frame_.depth());
    return Turn::Return;
  }
  const bool into_callee = exit.capture_callee;
  const bool hand_over = exit.kind == plan::ExitKind::HandOver;
  if (!exit.frame_unchanged) write_back(run);
  run.release();
  return hand_over ? Turn::Evaluate : step(into_callee);
}

/// Everything is in its new place before the old objects are dropped: their finalizers may look at the frame.
void Chain::write_back(SegmentRun& run) {
  const plan::Exit& exit = run.segment().exit;
  std::vector<Owned<>> old;
  for (const plan::SlotWrite& write : exit.locals) {
    old.push_back(Owned<>::steal(frame_.locals()[write.slot]));
    frame_.locals()[write.slot] = share(run.value(write.value)).release();
  }
  while (frame_.depth() > 0) old.push_back(Owned<>::steal(frame_.pop()));
  for (plan::Register item : exit.stack) frame_.push(share(run.value(item)).release());
  frame_.set_next(exit.offset);
  if (exit.exception != plan::kKeep)
    cpython::set_handled_exception(thread_, share(run.value(exit.exception)).release());
}

/// The exception that is set is raised by the instruction the frame stands at.
Chain::Turn Chain::raise_here() {
  const int at = instruction().at;
  frame_.set_current(at);
  return cpython::leave_instruction(thread_, frame_, {cpython::Outcome::Raised, nullptr, at}) ? Turn::Again
                                                                                              : Turn::Leave;
}

/// What a graph raised after something was written for good leaves the frame: its handlers would see the variables of
/// the segment's start. A frame that has not begun has no cells yet, so its traceback entry is made.
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

/// The exception that is set leaves the frame past all its handlers: it is not the program's.
Chain::Turn Chain::abandon() {
  frame_.set_current(instruction().at);
  cpython::add_traceback(thread_, frame_);
  frame_.drop(frame_.depth());
  cpython::set_handled_exception(thread_, Owned<>(handled_).release());
  return Turn::Leave;
}

}  // namespace gramme::runtime
