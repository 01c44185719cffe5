// Getting hold of frames before they run: of one particular call, or of all that begin for a while.
#pragma once
#include <Python.h>

#include <memory>

#include "cpython/concrete.h"
#include "cpython/frame.h"

namespace gramme::cpython {

/// Runs a frame that has its arguments bound and has not started. Must not throw.
using FrameRunner = PyObject* (*)(void* context, PyThreadState* thread, LiveFrame frame);

/// Calls a Python function (no generator, no coroutine) for real, with `run` in the evaluator's place for that one
/// frame. The interpreter's evaluation hook is ours only from here until that frame appears; frames of others pass
/// through to whoever was hooked in before. Binding errors are CPython's own. Costs some 5 ns over the call.
PyObject* call_with_frame(PyThreadState* thread, PyFunctionObject* function, PyObject* const* args, size_t nargsf,
                          PyObject* kwnames, FrameRunner run, void* context);

/// Carries out the frame's next instruction; it calls `function`, and `run` gets the frame of that call. Until then
/// there is no garbage collection, whose finalizers might call the function. Where `*taken_over` is true when it has
/// returned, the frame's content is about to be replaced: no signal handler runs behind the instruction.
StepResult step_into(PyThreadState* thread, LiveFrame frame, PyFunctionObject* function, FrameRunner run, void* context,
                     const bool* taken_over);

/// From construction to destruction `run` gets the frame of the generator or coroutine, if it is resumed in this thread
/// by a value, nobody traces, and whoever resumes it handles no exception.
class FrameResumed {
 public:
  FrameResumed(PyThreadState* thread, PyObject* generator, FrameRunner run, void* context);
  ~FrameResumed();
  FrameResumed(const FrameResumed&) = delete;

 private:
  struct Expectation;
  std::unique_ptr<Expectation> expectation_;
};

/// While one lives, plain code resumes generators by their types' slots, where their resumers look. Up to 3.11 it
/// always does; later the hook has to be in, which costs each call of a Python function what TakesFrames says.
class ResumesBySlots {
 public:
  ResumesBySlots();
  ~ResumesBySlots();
  ResumesBySlots(const ResumesBySlots&) = delete;
};

/// What becomes of a frame that begins or is resumed.
enum class FrameRule : uint8_t {
  Take,    // the taker runs it
  PassOn,  // CPython runs it; frames that begin in it are asked about, too
  Alone,   // CPython runs it and all it calls
  Leave,   // CPython runs it; nothing is asked any more
};

/// Who is asked about the frames that a thread begins, of functions whose arguments are bound, or resumes, of
/// generators and coroutines that get a value. Not while the thread is traced, profiled or raises.
class FrameTaker : public std::enable_shared_from_this<FrameTaker> {
 public:
  virtual ~FrameTaker() = default;
  virtual FrameRule ask(PyFunctionObject* function) noexcept = 0;
  /// Runs a frame in the evaluator's place. Frames that begin meanwhile are nobody's.
  virtual PyObject* run(PyThreadState* thread, LiveFrame frame) noexcept = 0;

 private:
  friend class TakesFrames;
  friend class TakesNone;
  friend struct Takers;
  enum class State : uint8_t { Off, On, Suspended } state_ = State::Off;
};

/// From construction to destruction the taker is asked about the frames this thread begins. Calls of Python functions
/// by Python functions use C stack then: where half of it is used up, the hook is out until they have returned. A
/// process forked meanwhile has no taker. Costs some 10 ns, a frame that is passed on 15 ns more than the call from C
/// that it becomes.
class TakesFrames {
 public:
  TakesFrames(PyThreadState* thread, FrameTaker* taker);
  ~TakesFrames();
  TakesFrames(const TakesFrames&) = delete;

 private:
  PyThreadState* thread_;
  FrameTaker* taker_;
};

/// In the scope no trace and no profile function hears of what runs, and frames count as observed by nobody; at its end
/// those from before hear again, unless others were set meanwhile. Costs a comparison where there are none.
class Untraced {
 public:
  /// Whether the profile function's object is alive as long as it is to be called. Who lets go of it before has ended:
  /// it must not hear again.
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

/// In the scope, frames are nobody's: what gramme itself runs.
class TakesNone {
 public:
  TakesNone() {
    if (on) [[unlikely]]
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
  static inline constinit int on = 0;  // takers in all threads; guarded by the GIL
  static constinit thread_local FrameTaker* current_taker;
  std::shared_ptr<FrameTaker> suspended_;
};

}  // namespace gramme::cpython
