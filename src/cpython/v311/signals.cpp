// Handlers run on the thread that the runtime calls the main one, and only there: while it calls none so, what arrives
// stays noted. Whoever reads that field holds the GIL or compares it with a thread of its own.
#include "base/signals.h"

#include "cpython/v311/internal.h"

#define Py_BUILD_CORE 1
#include <internal/pycore_runtime.h>
#undef Py_BUILD_CORE

namespace gramme {
namespace {

constexpr unsigned long kNobody = 0;

thread_local constinit int depth = 0;  // of sections; only the main thread's
thread_local constinit const PyObject* raised = nullptr;

void hold() { _PyRuntime.main_thread = kNobody; }

/// CPython acts on what waits.
void let() {
  _PyRuntime.main_thread = PyThread_get_thread_ident();
  PyInterpreterState* interpreter = PyInterpreterState_Main();
  if (_Py_atomic_load_relaxed(&_PyRuntime.ceval.signals_pending) ||
      _Py_atomic_load_relaxed(&interpreter->ceval.pending.calls_to_do))
    _Py_atomic_store_relaxed(&interpreter->ceval.eval_breaker, 1);
}

using signals::is_main;

}  // namespace

bool signals::is_main() { return _PyRuntime.main_thread == PyThread_get_thread_ident(); }

SignalsHeld::SignalsHeld() : held_(depth > 0 || is_main()) {
  if (held_ && depth++ == 0) hold();
}

SignalsHeld::~SignalsHeld() {
  if (held_ && --depth == 0) let();
}

SignalsLet::SignalsLet() : depth_(depth) {
  if (!depth_) return;
  depth = 0;
  let();
}

SignalsLet::~SignalsLet() {
  if (!depth_) return;
  depth = depth_;
  hold();
}

namespace signals {

static_assert(sizeof _PyRuntime.ceval.signals_pending == sizeof(int));
const volatile int* const pending = reinterpret_cast<const volatile int*>(&_PyRuntime.ceval.signals_pending);

bool run_here() { return depth == 1 || (depth == 0 && is_main()); }

void wake() {
  _Py_atomic_store_relaxed(&_PyRuntime.ceval.signals_pending, 1);
  if (is_main()) _Py_atomic_store_relaxed(&PyInterpreterState_Main()->ceval.eval_breaker, 1);
}

void note(const PyObject* exception) { raised = exception; }

void run_handlers() {
  const SignalsLet let;
  if (Py_MakePendingCalls() == 0) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  raised = value;
  PyErr_Restore(type, value, traceback);
  throw Interrupted();
}

}  // namespace signals

bool is_raised_by_look(const PyObject* exception) { return exception && exception == raised; }

}  // namespace gramme
