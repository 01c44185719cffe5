// Intercepts frames before they run: that of one particular call, or all that a thread begins for a while.
#pragma once
#include <Python.h>

#include <memory>

#include "base/process.h"
#include "cpython/concrete.h"
#include "cpython/frame.h"

namespace gramme::cpython {

/// Runs a frame that has its arguments bound and has not started. Must not throw.
using FrameRunner = PyObject* (*)(void* context, PyThreadState* thread, LiveFrame frame);

/// Calls a Python function (no generator, no coroutine) with `run` in place of the evaluator for that one frame. The
/// evaluation hook is installed only until that frame appears; other frames pass to the earlier hook. Errors of binding
/// are CPython's own. Costs some 5 ns more than the call.
PyObject* call_with_frame(PyThreadState* thread, PyFunctionObject* function, PyObject* const* args, size_t nargsf,
                          PyObject* kwnames, FrameRunner run, void* context);

/// Executes the frame's next instruction, which calls `function`; `run` gets the frame of that call. Until then there
/// is no garbage collection, whose finalizers might call the function too. If `*taken_over` is true after `run`
/// returns, the frame's content is about to be replaced, so no signal handler runs after the instruction.
StepResult step_into(PyThreadState* thread, LiveFrame frame, PyFunctionObject* function, FrameRunner run, void* context,
                     const bool* taken_over);

/// In its lifetime, `run` gets the frame of the generator or coroutine if it is resumed in this thread with a value,
/// without tracing, and not while an exception is handled.
class FrameResumed {
 public:
  FrameResumed(PyThreadState* thread, PyObject* generator, FrameRunner run, void* context);
  ~FrameResumed();
  FrameResumed(const FrameResumed&) = delete;

 private:
  struct Expectation;
  std::unique_ptr<Expectation> expectation_;
};

/// In its lifetime, CPython resumes generators through their types' slots, where watched generators are noticed. Up to
/// 3.11 that is always so. Later versions need the hook for it, at the cost described at TakesFrames.
class ResumesBySlots {
 public:
  ResumesBySlots();
  ~ResumesBySlots();
  ResumesBySlots(const ResumesBySlots&) = delete;
};

/// A taker's decision for a frame that begins or is resumed.
enum class FrameRule : uint8_t {
  Take,    // the taker runs it
  PassOn,  // CPython runs it; the taker is also asked about frames that begin in it
  Alone,   // CPython runs it and all its calls
  Leave,   // CPython runs it; the taker is not asked any more
};

/// Is asked about each frame that a thread begins, of a function with bound arguments, or resumes, of a generator or
/// coroutine. It is not asked while the thread is traced or profiled, or an exception is set.
class FrameTaker : public std::enable_shared_from_this<FrameTaker> {
 public:
  virtual ~FrameTaker() = default;
  virtual FrameRule ask(PyFunctionObject* function) noexcept = 0;
  /// Runs a frame in place of the evaluator. Frames that begin meanwhile are not offered.
  virtual PyObject* run(PyThreadState* thread, LiveFrame frame) noexcept = 0;

 private:
  friend class TakesFrames;
  friend class TakesNone;
  friend struct Takers;
  enum class State : uint8_t { Off, On, Suspended } state_ = State::Off;
};

/// In its lifetime, the taker is asked about frames that this thread begins. Calls between Python functions then use C
/// stack; once half of it is used, the hook is taken out until they return. A process forked meanwhile has no taker.
/// Costs some 10 ns, and for each frame that is passed on 15 ns beside the cost of a call from C.
class TakesFrames {
 public:
  TakesFrames(PyThreadState* thread, FrameTaker* taker);
  ~TakesFrames();
  TakesFrames(const TakesFrames&) = delete;

 private:
  PyThreadState* thread_;
  FrameTaker* taker_;
};

/// Switches trace and profile functions off in the scope; frames count as unobserved. At the end the earlier functions
/// are restored, unless others were set meanwhile. Costs a comparison if there are none.
class Untraced {
 public:
  /// HoldsItsObject: the profiler keeps its object alive while it profiles. If only Untraced still holds the object,
  /// the profiler has ended and is not restored.
  enum class Profiler : uint8_t { MayBeOurs, HoldsItsObject };
  explicit Untraced(PyThreadState* thread, Profiler profiler = Profiler::MayBeOurs)
      : thread_(thread), profiler_(profiler) {
    if (is_observed(thread)) [[unlikely]]
      suspend();
  }
  ~Untraced() {
    if (suspended_) [[unlikely]]
      resume();
  }
  Untraced(const Untraced&) = delete;

 private:
  void suspend();
  void resume();
  PyThreadState* thread_;
  Profiler profiler_;
  bool suspended_ = false;
  Py_tracefunc trace_ = nullptr, profile_ = nullptr;
  Owned<> trace_object_, profile_object_;
};

/// In the scope, frames are not offered to the taker: for Python that gramme itself runs.
class TakesNone {
 public:
  TakesNone() {
    if (state_->on) [[unlikely]]
      suspend();
  }
  ~TakesNone() {
    if (suspended_) [[unlikely]]
      resume();
  }
  TakesNone(const TakesNone&) = delete;

 private:
  friend struct Takers;
  void suspend();
  void resume();
  struct State {
    int on = 0;  // GIL, a word: takers in all threads
  };
  struct Thread {
    FrameTaker* taker = nullptr;
  };
  static Lasting<State> state_;
  static constinit thread_local Thread thread_;
  std::shared_ptr<FrameTaker> suspended_;
};

inline Lasting<TakesNone::State> TakesNone::state_;

}  // namespace gramme::cpython
