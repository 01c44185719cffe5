// How a segment leaves frames: the live one, those that it made above, those that it returned into.
#include "base/stack.h"
#include "cpython/evaluator.h"
#include "runtime/call.h"
#include "runtime/chain.h"
#include "runtime/guarded.h"

namespace gramme::runtime {

/// `frame` was called with dummy arguments and has not begun.
Chain::Chain(Chain& caller, PyThreadState* thread, cpython::LiveFrame frame, Pushed& pushed, size_t index)
    : Chain(caller.family_, thread, frame, caller.taken_) {
  const plan::PushedFrame& content = pushed.frame(index);
  pushed.fill(frame_, index);
  frame_.set_next(content.offset);
  pushed_ = &pushed;
  index_ = index;
  gives_ = content.gives;
  if (gives_ == plan::Gives::More) return;
  caller_ = &caller;
  depth_ = caller.depth_ + 1;
}

Pushed::Pushed(const SegmentRun& run) : segment_(run.shared_segment()) {
  if (exit().pushed.empty()) return;
  for (const plan::PushedFrame& frame : exit().pushed) count_ += 1 + frame.values.size();
  values_.reset(new PyObject*[count_]);
  PyObject** next = values_.get();
  for (const plan::PushedFrame& frame : exit().pushed) {
    *next++ = Py_NewRef(run.value(frame.function));
    for (plan::Register value : frame.values) *next++ = Py_XNewRef(run.value(value));
  }
}

Pushed& Pushed::operator=(Pushed&& other) noexcept {
  std::swap(segment_, other.segment_);
  std::swap(values_, other.values_);
  std::swap(taken_, other.taken_);
  std::swap(count_, other.count_);
  return *this;
}

Pushed::~Pushed() {
  while (taken_ < count_) take();
}

namespace {

/// Pushes an item as CPython's compiler would: a borrowed item has no reference beside its local's, which
/// sys.getrefcount shows. The local may hold another object by now.
void push_item(cpython::LiveFrame frame, Owned<> item, size_t from_top, const std::vector<int>& borrowed) {
  const int local = from_top < borrowed.size() ? borrowed[from_top] : -1;
  const bool is_lent = local >= 0 && item && frame.local(local) == item.get();
  return is_lent ? frame.push_lent(local) : frame.push(item.release());
}

}  // namespace

void Pushed::fill(cpython::LiveFrame frame, size_t index) {
  const int locals = frame.local_count(), depth = this->frame(index).depth;
  PyObject* const* values = values_.get() + taken_;
  for (int i = 0; i < locals; ++i) frame.set_local(i, values[i]);
  for (int i = 0; i < depth; ++i)
    push_item(frame, Owned<>::steal(values[locals + i]), static_cast<size_t>(depth - 1 - i),
              this->frame(index).borrowed);
  taken_ += static_cast<size_t>(locals + depth);
}

/// Starts a frame that a segment pushed: fills in its state, then continues at the place where the segment left it.
Chain::Turn Chain::begin() {
  const plan::Exit& exit = pushed_->exit();
  return index_ + 1 == exit.pushed.size() ? step(exit.capture_callee) : push(*pushed_, index_ + 1);
}

/// Carries out the instruction that calls the index-th frame.
Chain::Turn Chain::push(Pushed& pushed, size_t index) {
  if (pushed.frame(index).gives == plan::Gives::Instance) return after(construct(pushed, index));
  if (pushed.frame(index).called_alone) return after(call_pushed(pushed, index));
  return after(capturing_callees([&] { return call_pushed(pushed, index); }));
}

namespace {

/// What type.__call__ returns once __init__ has returned: a new reference, or null with an error set.
PyObject* constructed(PyObject* instance, PyObject* value) {
  const Owned<> held = Owned<>::steal(value);
  if (!value) return nullptr;
  if (value == Py_None) return Py_NewRef(instance);
  return PyErr_Format(PyExc_TypeError, "__init__() should return None, not '%.200s'", Py_TYPE(value)->tp_name);
}

}  // namespace

/// The operands on the stack are not the arguments, so CPython never gets this instruction.
cpython::StepResult Chain::call_pushed(Pushed& pushed, size_t index) {
  struct Call {
    Chain& caller;
    Pushed& pushed;
    size_t index;
  } call{*this, pushed, index};
  auto run = [](void* context, PyThreadState* thread, cpython::LiveFrame frame) {
    auto& [caller, pushed, index] = *static_cast<Call*>(context);
    return guarded([&] {
      const bool constructs = pushed.frame(index).gives == plan::Gives::Instance;
      PyObject* const instance = constructs ? frame.local(0) : nullptr;  // borrowed: an operand on the stack
      PyObject* value = Chain(caller, thread, frame, pushed, index).run();
      return constructs ? constructed(instance, value) : value;
    });
  };
  const auto function = Owned<PyFunctionObject>::steal(reinterpret_cast<PyFunctionObject*>(pushed.take().release()));
  const cpython::StepResult result = cpython::step_into(thread_, frame_, function.get(), run, &call, &taken_over_);
  if (result.outcome != cpython::Outcome::HandOver) return result;
  PyErr_SetString(PyExc_SystemError, "gramme: an instruction that calls a function cannot be carried out");
  return {cpython::Outcome::Raised, nullptr, instruction().at};
}

/// For an instruction that called a class: calls __init__ on the instance, one recursion level down like type.__call__.
cpython::StepResult Chain::construct(Pushed& pushed, size_t index) {
  if (!cpython::enter_recursive_call(thread_, " while calling a Python object"))
    return {cpython::Outcome::Raised, nullptr, instruction().at};
  cpython::StepResult result = call_pushed(pushed, index);
  cpython::leave_recursive_call(thread_);
  return result;
}

/// True if there is room for the code that the segment replaces, and for the frames that it pushes.
bool Chain::has_room_for(const plan::Segment& segment) const {
  return cpython::has_recursive_calls(thread_, segment.levels) &&
         (segment.exit.pushed.empty() || has_room(Room::Capture));
}

namespace {

Content take_content(const SegmentRun& run) {
  const plan::Exit& exit = run.segment().exit;
  Content content;
  content.locals.reserve(exit.locals.size());
  content.stack.reserve(exit.stack.size());
  for (const plan::SlotWrite& write : exit.locals)
    content.locals.emplace_back(write.slot, share(run.value(write.value)));
  for (plan::Register item : exit.stack) content.stack.push_back(share(run.value(item)));
  content.borrowed = exit.borrowed;
  content.offset = exit.offset;
  return content;
}

}  // namespace

Chain::Turn Chain::leave_by(SegmentRun& run) {
  const plan::Exit& exit = run.segment().exit;
  if (!exit.callers.empty()) return return_into_caller(run);
  if (exit.kind == plan::ExitKind::Return) {
    result_ = Py_NewRef(run.value(exit.result));
    if (exit.makes_generator) own_generator(family_, result_);
    set_handled(run);
    frame_.make_safe();
    for (const plan::SlotWrite& write : exit.locals) frame_.set_local(write.slot, nullptr);
    frame_.drop(frame_.depth());
    return Turn::Return;
  }
  if (exit.kind == plan::ExitKind::Yield) return yield(run);
  const bool into_callee = exit.capture_callee;
  const bool hand_over = exit.kind == plan::ExitKind::HandOver;
  Pushed pushed = exit.pushed.empty() ? Pushed() : Pushed(run);
  if (!exit.frame_unchanged) {
    put(take_content(run));
    set_handled(run);
  }
  run.release();
  if (pushed) return push(pushed, 0);
  return hand_over ? Turn::Evaluate : step(into_callee);
}

/// Drops everything before the frame is suspended, because a finalizer might resume it.
Chain::Turn Chain::yield(SegmentRun& run) {
  result_ = Py_NewRef(run.value(run.segment().exit.result));
  put(take_content(run));
  set_handled(run);
  run.release();
  frame_.suspend();
  return Turn::Return;
}

/// Frames already returned from yield a dummy None to the calls that wait for them; the state of their callers is
/// overwritten by what the segment leaves in the frame where it ended.
Chain::Turn Chain::return_into_caller(SegmentRun& run) {
  const plan::Exit& exit = run.segment().exit;
  std::unique_ptr<Landing> landing(new Landing);  // without zeros that nobody reads
  landing->content = take_content(run);
  landing->kind = exit.kind;
  landing->result = share(run.value(exit.result));
  if (exit.makes_generator) own_generator(family_, landing->result.get());
  landing->pushed = Pushed(run);
  set_handled(run);
  Chain* chain = this;
  for (const plan::Caller& caller : exit.callers) {
    chain->frame_.make_safe();
    for (int slot : caller.dies) chain->frame_.set_local(slot, nullptr);
    chain = chain->caller_;
    chain->taken_over_ = true;
  }
  chain->landing_ = std::move(landing);
  run.release();
  return pass_on();
}

Chain::Turn Chain::pass_on() {
  frame_.drop(frame_.depth());
  result_ = Py_NewRef(Py_None);
  return Turn::Return;
}

Chain::Turn Chain::land() {
  std::unique_ptr<Landing> landing = std::move(landing_);
  const bool returns = landing->kind == plan::ExitKind::Return;
  if (returns) landing->content.offset = frame_.next();
  put(std::move(landing->content));
  if (returns || landing->kind == plan::ExitKind::Yield) {
    result_ = landing->result.release();
    if (!returns) frame_.suspend();
    return Turn::Return;
  }
  if (landing->pushed) return push(landing->pushed, 0);
  return step(landing->pushed.exit().capture_callee);
}

/// For a segment whose graph raised and which returns into callers: the raising frame is unknown, so from now on
/// segments from this resume point end with their frame.
Chain::Turn Chain::again_without_callers(const plan::Segment& segment) {
  ResumePoint& point = point_here();
  point.returns = false;
  point.remove(segment);
  return Turn::Again;
}

/// Everything is in its new place before the old objects are dropped: their finalizers may look at the frame.
void Chain::put(Content content) {
  std::vector<Owned<>> old;
  frame_.make_safe();
  old.reserve(content.locals.size() + static_cast<size_t>(frame_.depth()));
  for (auto& [slot, value] : content.locals)
    old.push_back(Owned<>::steal(frame_.exchange_local(slot, value.release())));
  while (frame_.depth() > 0) old.push_back(Owned<>::steal(frame_.pop()));
  for (size_t i = 0, n = content.stack.size(); i < n; ++i)
    push_item(frame_, std::move(content.stack[i]), n - 1 - i, content.borrowed);
  frame_.set_next(content.offset);
}

void Chain::set_handled(const SegmentRun& run) {
  const plan::Register exception = run.segment().exit.exception;
  if (exception != plan::kKeep) cpython::set_handled_exception(thread_, share(run.value(exception)).release());
}

}  // namespace gramme::runtime
