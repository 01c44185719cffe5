// Tells whether a trace function, a profile function or a tool of sys.monitoring observes the running code. From
// CPython 3.12 on, trace and profile functions are such tools too. A tool that wants each instruction, line or call
// rewrites the code at once, also of running frames: CPython must run them from the next instruction on.
#pragma once
#include "cpython/image.h"

#define Py_BUILD_CORE 1
#include <internal/pycore_interp.h>
#undef Py_BUILD_CORE

namespace gramme::cpython {

#if GRAMME_PYTHON_MONITORING
namespace observed {
struct Thread {
  int untraced = 0;  // Untraced scopes around the running code
};
inline constinit thread_local Thread of_thread;

/// The tools that receive events of this thread. Events are global, but a trace or profile function belongs to one
/// thread.
inline uint8_t hearing(PyThreadState* thread) {
  constexpr unsigned kProfile = 1 << 6, kTrace = 1 << 7;  // PY_MONITORING_SYS_PROFILE_ID, _TRACE_ID
  if (of_thread.untraced) return 0;
  const unsigned deaf = (thread->c_profilefunc ? 0 : kProfile) | (thread->c_tracefunc ? 0 : kTrace);
  return static_cast<uint8_t>(~deaf);
}

template <class Monitors>
bool any(PyThreadState* thread, const Monitors& monitors) {
  uint8_t all = 0;
  for (const uint8_t tools : monitors.tools) all |= tools;
  return all && (all & hearing(thread));
}
}  // namespace observed
#endif

/// True if events of all code are observed.
inline bool is_observed(PyThreadState* thread) {
#if GRAMME_PYTHON_MONITORING
  return observed::any(thread, thread->interp->monitors);
#else
  return thread->cframe->use_tracing || thread->c_tracefunc || thread->c_profilefunc;
#endif
}

/// The same, or if events of this code are observed.
inline bool is_observed(PyThreadState* thread, [[maybe_unused]] PyCodeObject* code) {
#if GRAMME_PYTHON_MONITORING
  if (code->_co_monitoring && observed::any(thread, code->_co_monitoring->local_monitors)) return true;
#endif
  return is_observed(thread);
}

}  // namespace gramme::cpython
