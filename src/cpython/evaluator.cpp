// The frame evaluation hook (PEP 523). It is installed only while a call is awaited or a taker is on, and passes other
// frames to the hook that was there before.
#include "cpython/evaluator.h"

#include <pthread.h>

#include <algorithm>

#include "base/ref.h"
#include "base/stack.h"
#include "cpython/generator_image.h"
#include "cpython/generators.h"
#include "cpython/internal.h"
#include "cpython/objects.h"

namespace gramme::cpython {

constinit thread_local TakesNone::Thread TakesNone::thread_;

/// The thread's taker, and the number of active takers in all threads. Guarded by the GIL.
struct Takers {
  using State = FrameTaker::State;
  static FrameTaker*& current() { return TakesNone::thread_.taker; }
  static void set(FrameTaker& taker, State state) {
    count() += (state == State::On) - (taker.state_ == State::On);
    taker.state_ = state;
  }
  static bool is_suspended(const FrameTaker& taker) { return taker.state_ == State::Suspended; }
  static int& count() { return TakesNone::state_->on; }
};

namespace {

/// A call whose frame has not appeared yet. Binding arguments may collect garbage, whose finalizers run any Python and
/// let other threads run. So several calls of several threads can be pending. All guarded by the GIL.
struct Pending {
  PyThreadState* thread;
  PyFunctionObject* function;
  FrameRunner run;
  void* context;
  Pending* older;
  const _PyInterpreterFrame* caller = nullptr;   // null: any caller
  const _PyInterpreterFrame* resumed = nullptr;  // a generator's frame, instead of the function
};

struct Hook {
  Pending* newest = nullptr;  // GIL: calls of all threads
  int deep = 0;               // GIL, a word: calls that took the hook out because their stack is half used
  int by_slots = 0;           // GIL, a word: existing ResumesBySlots objects
  bool in_place = false;      // GIL: it was installed and not removed; another hook may have been put over it
  _PyFrameEvalFunction previous = _PyEval_EvalFrameDefault;  // GIL: what it replaced
  _PyFrameEvalFunction overlaid = nullptr;  // GIL: put over it, while a pending call or a taker needs it on top
};
Lasting<Hook> hook_state;

struct Thread {
  _PyInterpreterFrame* passing = nullptr;  // the frame that is passed on; a hook put over ours calls back with it
};
thread_local constinit Thread of_thread;

PyObject* evaluate(PyThreadState* thread, _PyInterpreterFrame* raw, int throwing);

bool is_wanted() { return hook_state->newest || (Takers::count() + hook_state->by_slots > 0 && hook_state->deep == 0); }
bool is_wanted_on_top() { return hook_state->newest || (Takers::count() > 0 && hook_state->deep == 0); }

/// True if `current` was put over our hook, to which it passes frames on.
bool covers(_PyFrameEvalFunction current) {
  return hook_state->in_place && current != hook_state->previous && current != _PyEval_EvalFrameDefault;
}

void install(PyInterpreterState* interpreter) {
  _PyFrameEvalFunction current = _PyInterpreterState_GetEvalFrameFunc(interpreter);
  if (current == evaluate) return;
  const bool covered = covers(current);
  if (covered && !is_wanted_on_top()) return;
  (covered ? hook_state->overlaid : hook_state->previous) = current;
  hook_state->in_place = true;
  _PyInterpreterState_SetEvalFrameFunc(interpreter, evaluate);
}

/// Gives an overlaid hook its place back as soon as ours need not be on top. Otherwise the owner of that hook, who
/// removes it by restoring ours, could not remove it, and we would restore it when ours is removed.
void remove(PyInterpreterState* interpreter) {
  _PyFrameEvalFunction current = _PyInterpreterState_GetEvalFrameFunc(interpreter);
  if (current == hook_state->overlaid) hook_state->overlaid = nullptr;  // its owner put it over ours again
  if (current != evaluate) return;
  if (hook_state->overlaid) {
    if (!is_wanted_on_top())
      _PyInterpreterState_SetEvalFrameFunc(interpreter, std::exchange(hook_state->overlaid, nullptr));
  } else if (!is_wanted()) {
    hook_state->in_place = false;
    _PyInterpreterState_SetEvalFrameFunc(interpreter, hook_state->previous);
  }
}

/// Takes the pending call out of the list; false if its frame has appeared before.
bool take(Pending* pending) {
  for (Pending** link = &hook_state->newest; *link; link = &(*link)->older) {
    if (*link != pending) continue;
    *link = pending->older;
    return true;
  }
  return false;
}

PyObject* pass_on(PyThreadState* thread, _PyInterpreterFrame* raw, int throwing) {
  const bool came_back = of_thread.passing == raw;
  _PyFrameEvalFunction next = hook_state->overlaid && !came_back ? hook_state->overlaid : hook_state->previous;
  if (next == _PyEval_EvalFrameDefault || next == evaluate || (came_back && !hook_state->overlaid))
    return _PyEval_EvalFrameDefault(thread, raw, throwing);
  _PyInterpreterFrame* outer = of_thread.passing;
  of_thread.passing = raw;
  PyObject* result = next(thread, raw, throwing);
  of_thread.passing = outer;
  return result;
}

/// The evaluator may count its entries from C, independent of the stack's size; half of the limit is left to the
/// program.
#if defined(Py_C_RECURSION_LIMIT)
bool may_enter_often(PyThreadState* thread) { return thread->c_recursion_remaining > Py_C_RECURSION_LIMIT / 2; }
#elif defined(C_RECURSION_LIMIT)
bool may_enter_often(PyThreadState* thread) { return thread->c_recursion_remaining > C_RECURSION_LIMIT / 2; }
#else
bool may_enter_often(PyThreadState*) { return true; }
#endif

/// Takes the hook out, so that calls made by the frame use no C stack.
[[gnu::cold]] PyObject* pass_on_deep(PyThreadState* thread, _PyInterpreterFrame* raw, int throwing) {
  ++hook_state->deep;
  remove(thread->interp);
  PyObject* result = pass_on(thread, raw, throwing);
  --hook_state->deep;
  if (is_wanted()) install(thread->interp);
  return result;
}

constexpr int kFunction = CO_OPTIMIZED | CO_NEWLOCALS;
constexpr int kSuspends = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;

/// True for a function's frame that is not observed and in whose thread no exception is set, except one thrown into it.
bool can_be_taken(PyThreadState* thread, FrameImage frame, bool throwing = false) {
  PyCodeObject* code = frame.code();
  return (code->co_flags & kFunction) == kFunction && !frame.namespace_object() &&
         frame.function()->func_code == reinterpret_cast<PyObject*>(code) && !is_observed(thread, code) &&
         is_raising(thread) == throwing;
}

bool begins(PyThreadState* thread, FrameImage frame) {
  return !(frame.code()->co_flags & kSuspends) && frame.of_function() && frame.next() == 0 &&
         can_be_taken(thread, frame);
}

/// True for a generator's or coroutine's frame that is resumed with a value or an exception.
bool is_resumed(PyThreadState* thread, FrameImage frame, bool throwing) {
  const int suspends = frame.code()->co_flags & kSuspends;
  return (suspends == CO_GENERATOR || suspends == CO_COROUTINE) && frame.of_generator() &&
         can_be_taken(thread, frame, throwing);
}

bool is_awaited(const Pending& pending, FrameImage frame, bool throwing) {
  if (pending.resumed) return pending.resumed == frame.raw() && is_resumed(pending.thread, frame, throwing);
  return !throwing && pending.function == frame.function() &&
         (!pending.caller || pending.caller == current_frame(pending.thread));
}

Pending* find(PyThreadState* thread, _PyInterpreterFrame* raw, bool throwing) {
  for (Pending* pending = hook_state->newest; pending; pending = pending->older)
    if (pending->thread == thread) return is_awaited(*pending, FrameImage(raw), throwing) ? pending : nullptr;
  return nullptr;
}

/// The same, for generators that are not watched: watched ones belong to their own resumer.
bool is_resumed_unclaimed(PyThreadState* thread, _PyInterpreterFrame* raw, bool throwing) {
  return is_resumed(thread, FrameImage(raw), throwing) && !is_watched(generator_of(FrameImage(raw)));
}

#if GRAMME_PYTHON_WEAKREF_IS_DEAD
bool is_dead(PyObject* reference) { return PyWeakref_IsDead(reference) == 1; }
#else
bool is_dead(PyObject* reference) { return PyWeakref_GET_OBJECT(reference) == Py_None; }
#endif

/// True for an argument of a call that no code of the program made: a frame (signal handlers) or a dead weak reference.
bool is_of_interruption(PyObject* argument) {
  return PyFrame_Check(argument) || (PyWeakref_Check(argument) && is_dead(argument));
}

bool is_finalizer_of(PyObject* object, PyFunctionObject* function) {
  static PyObject* const name = intern("__del__");
  return Py_TYPE(object)->tp_finalize && type_lookup(Py_TYPE(object), name) == reinterpret_cast<PyObject*>(function);
}

/// True if the frame runs at a moment that the program did not choose: finalizers, callbacks of weak references and of
/// the collector, signal handlers, audit hooks. Also true for calls that look like one of them.
bool interrupts(PyThreadState* thread, FrameImage frame) {
  if (thread->interp->gc.collecting || thread->tracing) return true;
  if (frame.of_generator()) return false;  // its arguments are from its first call
  const PyCodeObject* code = frame.code();
  const int named = code->co_argcount + code->co_kwonlyargcount;
  for (int i = 0; i < named; ++i)
    if (is_of_interruption(frame.local(i))) return true;
  if (code->co_argcount > 0 && is_finalizer_of(frame.local(0), frame.function())) return true;
  if (!(code->co_flags & CO_VARARGS)) return false;
  auto* rest = reinterpret_cast<PyTupleObject*>(frame.local(named));
  return std::any_of(rest->ob_item, rest->ob_item + Py_SIZE(rest), is_of_interruption) ||
         (code->co_argcount == 0 && Py_SIZE(rest) > 0 && is_finalizer_of(rest->ob_item[0], frame.function()));
}

/// Asks the taker, which may run Python, with the exception thrown into the frame put aside.
FrameRule ask(FrameTaker& taker, PyThreadState* thread, FrameImage frame) {
  const ErrorState thrown;
  const FrameRule rule = taker.ask(frame.function());
  return rule != FrameRule::Leave && interrupts(thread, frame) ? FrameRule::Alone : rule;
}

PyObject* offer(PyThreadState* thread, _PyInterpreterFrame* raw, int throwing = 0) {
  FrameTaker& taker = *Takers::current();
  switch (ask(taker, thread, FrameImage(raw))) {
    case FrameRule::Take: {
      TakesNone scope;
      return taker.run(thread, LiveFrame(raw));
    }
    case FrameRule::Alone: {
      TakesNone scope;
      PyObject* result = pass_on(thread, raw, throwing);
      if (result) leave_alone(result);  // the call only made a generator
      return result;
    }
    case FrameRule::Leave:
      Takers::current() = nullptr;
      Takers::set(taker, Takers::State::Off);
      remove(thread->interp);
      break;
    case FrameRule::PassOn:
      break;
  }
  return pass_on(thread, raw, throwing);
}

/// Offers a frame into which an exception was thrown, unless a generator's death throws GeneratorExit into it.
PyObject* offer_thrown_into(PyThreadState* thread, _PyInterpreterFrame* raw) {
  const bool of_generator = FrameImage(raw).of_generator();
  const bool closes = of_generator && is_thrown_into(generator_of(FrameImage(raw)));
  if (!closes && PyErr_ExceptionMatches(PyExc_GeneratorExit)) {
    TakesNone scope;
    return pass_on(thread, raw, 1);
  }
  return is_resumed_unclaimed(thread, raw, true) ? offer(thread, raw, 1) : pass_on(thread, raw, 1);
}

PyObject* evaluate(PyThreadState* thread, _PyInterpreterFrame* raw, int throwing) {
  if (Pending* pending = find(thread, raw, throwing)) {
    take(pending);
    remove(thread->interp);
    TakesNone scope;
    return pending->run(pending->context, thread, LiveFrame(raw));
  }
  if (!is_wanted()) remove(thread->interp);  // removing another hook put ours back
  if (!surely_has_room(Room::Hook) || !may_enter_often(thread)) [[unlikely]]
    return pass_on_deep(thread, raw, throwing);
  if (!Takers::current()) return pass_on(thread, raw, throwing);
  if (throwing) return offer_thrown_into(thread, raw);
  return begins(thread, FrameImage(raw)) || is_resumed_unclaimed(thread, raw, false) ? offer(thread, raw)
                                                                                     : pass_on(thread, raw, 0);
}

/// Removes takers and pending calls in a forked process: workers of data loaders capture nothing.
void forget_all() {
  if (FrameTaker* taker = std::exchange(Takers::current(), nullptr)) Takers::set(*taker, Takers::State::Off);
  Takers::count() = 0;
  hook_state->newest = nullptr;
}

/// Keeps the hook installed until the awaited frame appears or the call ends.
class Expected {
 public:
  explicit Expected(Pending& pending) : pending_(pending) {
    install(pending.thread->interp);
    hook_state->newest = &pending;
  }
  ~Expected() {
    if (take(&pending_)) remove(pending_.thread->interp);
  }
  Expected(const Expected&) = delete;

 private:
  Pending& pending_;
};

/// Prevents garbage collection until the awaited frame begins.
struct Awaited {
  FrameRunner run;
  void* context;
  bool stopped = PyGC_Disable();
  ~Awaited() { begin(); }
  void begin() {
    if (std::exchange(stopped, false)) PyGC_Enable();
  }
};

PyObject* run_awaited(void* context, PyThreadState* thread, LiveFrame frame) {
  auto& awaited = *static_cast<Awaited*>(context);
  awaited.begin();
  return awaited.run(awaited.context, thread, frame);
}

}  // namespace

PyObject* call_with_frame(PyThreadState* thread, PyFunctionObject* function, PyObject* const* args, size_t nargsf,
                          PyObject* kwnames, FrameRunner run, void* context) {
  Pending pending{thread, function, run, context, hook_state->newest};
  const Expected scope(pending);
  return PyObject_Vectorcall(reinterpret_cast<PyObject*>(function), args, nargsf, kwnames);
}

StepResult step_into(PyThreadState* thread, LiveFrame frame, PyFunctionObject* function, FrameRunner run, void* context,
                     const bool* taken_over) {
  Awaited awaited{run, context};
  Pending pending{thread, function, run_awaited, &awaited, hook_state->newest, frame.raw()};
  const Expected scope(pending);
  return step(thread, frame, nullptr, taken_over);
}

struct FrameResumed::Expectation {
  Pending pending;
  Expected expected{pending};
};

FrameResumed::FrameResumed(PyThreadState* thread, PyObject* generator, FrameRunner run, void* context)
    : expectation_(new Expectation{{thread, nullptr, run, context, hook_state->newest}}) {
  expectation_->pending.resumed = frame_of(generator).raw();
}

FrameResumed::~FrameResumed() = default;

#if GRAMME_PYTHON_EVALUATOR_ENDS  // it resumes generators in loops and awaits too, unless a hook is installed
ResumesBySlots::ResumesBySlots() {
  ++hook_state->by_slots;
  if (is_wanted()) install(PyThreadState_Get()->interp);
}

ResumesBySlots::~ResumesBySlots() {
  --hook_state->by_slots;
  remove(PyThreadState_Get()->interp);
}
#else
ResumesBySlots::ResumesBySlots() = default;
ResumesBySlots::~ResumesBySlots() = default;
#endif

TakesFrames::TakesFrames(PyThreadState* thread, FrameTaker* taker) : thread_(thread), taker_(taker) {
  if (!taker) return;
  know_who_throws();
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, forget_all);  // no Python
  Takers::current() = taker;
  Takers::set(*taker, Takers::State::On);
  if (is_wanted()) install(thread->interp);
}

/// A library that switches stacks may have made another taker current.
TakesFrames::~TakesFrames() {
  if (!taker_) return;
  if (Takers::current() == taker_) Takers::current() = nullptr;
  Takers::set(*taker_, Takers::State::Off);
  remove(thread_->interp);
}

void TakesNone::suspend() {
  if (!thread_.taker) return;
  suspended_ = thread_.taker->shared_from_this();
  thread_.taker = nullptr;
  Takers::set(*suspended_, Takers::State::Suspended);
  remove(PyThreadState_Get()->interp);
}

/// A library that switches stacks may have ended the taker's instruction meanwhile.
void TakesNone::resume() {
  if (!Takers::is_suspended(*suspended_)) return;
  thread_.taker = suspended_.get();
  Takers::set(*suspended_, Takers::State::On);
  if (is_wanted()) install(PyThreadState_Get()->interp);
}

namespace {
void follow([[maybe_unused]] PyThreadState* thread, [[maybe_unused]] int entered) {
#if GRAMME_PYTHON_EVALUATOR_TRACES
  thread->cframe->use_tracing = thread->c_tracefunc || thread->c_profilefunc ? 255 : 0;
#elif GRAMME_PYTHON_MONITORING
  observed::of_thread.untraced += entered;
#endif
}
}  // namespace

void Untraced::suspend() {
  suspended_ = true;
  trace_ = std::exchange(thread_->c_tracefunc, nullptr);
  profile_ = std::exchange(thread_->c_profilefunc, nullptr);
  trace_object_ = Owned<>::steal(std::exchange(thread_->c_traceobj, nullptr));
  profile_object_ = Owned<>::steal(std::exchange(thread_->c_profileobj, nullptr));
  follow(thread_, 1);
}

void Untraced::resume() {
  if (trace_ && !thread_->c_tracefunc && !thread_->c_traceobj) {
    thread_->c_tracefunc = trace_;
    thread_->c_traceobj = trace_object_.release();
  }
  const bool ended = profiler_ == Profiler::HoldsItsObject && profile_object_ && Py_REFCNT(profile_object_.get()) == 1;
  if (profile_ && !ended && !thread_->c_profilefunc && !thread_->c_profileobj) {
    thread_->c_profilefunc = profile_;
    thread_->c_profileobj = profile_object_.release();
  }
  follow(thread_, -1);
}

}  // namespace gramme::cpython
