// CPython runs handlers only on the thread that the runtime's field `main_thread` names. SignalsHeld clears the field,
// so signals stay pending. Other readers of the field hold the GIL, or compare it with their own thread.
#include "base/signals.h"

#include "cpython/internal.h"
#include "cpython/thread.h"

namespace gramme {
namespace {

constexpr unsigned long kNobody = 0;

struct Thread {
  int depth = 0;                     // of SignalsHeld scopes; main thread only
  const PyObject* raised = nullptr;  // by a handler
};
thread_local constinit Thread of_thread;

#if GRAMME_PYTHON_OWN_BREAKER
const volatile int* tripped() { return &_PyRuntime.signals.is_tripped; }

/// Makes the main thread check for signals and pending calls: it may have checked meanwhile and cleared the request.
void ask_evaluator() {
  if (_PyRuntime.signals.is_tripped) _Py_set_eval_breaker_bit(_PyRuntime.main_tstate, _PY_SIGNALS_PENDING_BIT);
  if (_PyRuntime.ceval.pending_mainthread.npending)
    _Py_set_eval_breaker_bit(_PyRuntime.main_tstate, _PY_CALLS_TO_DO_BIT);
}

void trip() {
  __atomic_store_n(&_PyRuntime.signals.is_tripped, 1, __ATOMIC_RELAXED);
  ask_evaluator();
}
#else
const volatile int* tripped() {
  static_assert(sizeof _PyRuntime.ceval.signals_pending == sizeof(int));
  return reinterpret_cast<const volatile int*>(&_PyRuntime.ceval.signals_pending);
}

void ask_evaluator() {
  PyInterpreterState* interpreter = PyInterpreterState_Main();
  if (_Py_atomic_load_relaxed(&_PyRuntime.ceval.signals_pending) ||
      _Py_atomic_load_relaxed(&interpreter->ceval.pending.calls_to_do))
    _Py_atomic_store_relaxed(&interpreter->ceval.eval_breaker, 1);
}

void trip() {
  _Py_atomic_store_relaxed(&_PyRuntime.ceval.signals_pending, 1);
  if (signals::is_main()) _Py_atomic_store_relaxed(&PyInterpreterState_Main()->ceval.eval_breaker, 1);
}
#endif

void hold() { _PyRuntime.main_thread = kNobody; }

/// Lets CPython handle pending signals again.
void let() {
  _PyRuntime.main_thread = PyThread_get_thread_ident();
  ask_evaluator();
}

using cpython::set_exception, cpython::take_exception;
using signals::is_main;

}  // namespace

bool signals::is_main() { return _PyRuntime.main_thread == PyThread_get_thread_ident(); }

SignalsHeld::SignalsHeld() : held_(of_thread.depth > 0 || is_main()) {
  if (held_ && of_thread.depth++ == 0) hold();
}

SignalsHeld::~SignalsHeld() {
  if (held_ && --of_thread.depth == 0) let();
}

SignalsLet::SignalsLet() : depth_(of_thread.depth) {
  if (!depth_) return;
  of_thread.depth = 0;
  let();
}

SignalsLet::~SignalsLet() {
  if (!depth_) return;
  of_thread.depth = depth_;
  hold();
}

namespace signals {

const volatile int* const pending = tripped();

bool run_here() { return of_thread.depth == 1 || (of_thread.depth == 0 && is_main()); }

void wake() { trip(); }

void note(const PyObject* exception) { of_thread.raised = exception; }

void run_handlers() {
  const SignalsLet let;
  if (Py_MakePendingCalls() == 0) return;
  const Owned<> exception = take_exception();
  of_thread.raised = exception.get();
  set_exception(exception.get());
  throw Interrupted();
}

}  // namespace signals

bool is_raised_by_look(const PyObject* exception) { return exception && exception == of_thread.raised; }

}  // namespace gramme
