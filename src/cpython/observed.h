// Does somebody watch what code does? Trace and profile functions and the tools of sys.monitoring; from 3.12 on the
// former are tools, too. Who is told of each instruction, line or call rewrites the code at once, of frames under way
// as well: from the next instruction on CPython has to run them.
#pragma once
#include <algorithm>

#include "cpython/image.h"

#define Py_BUILD_CORE 1
#include <internal/pycore_interp.h>
#undef Py_BUILD_CORE

namespace gramme::cpython {

#if GRAMME_PYTHON_MONITORING
namespace observed {
template <class Monitors>
bool any(const Monitors& monitors) {
  return std::any_of(std::begin(monitors.tools), std::end(monitors.tools), [](uint8_t tools) { return tools != 0; });
}
}  // namespace observed
#endif

/// Events of any code, in any thread.
inline bool is_observed(PyThreadState* thread) {
#if GRAMME_PYTHON_MONITORING
  return observed::any(thread->interp->monitors);
#else
  return thread->cframe->use_tracing || thread->c_tracefunc || thread->c_profilefunc;
#endif
}

/// The same, or of this code alone.
inline bool is_observed(PyThreadState* thread, [[maybe_unused]] PyCodeObject* code) {
#if GRAMME_PYTHON_MONITORING
  if (code->_co_monitoring && observed::any(code->_co_monitoring->local_monitors)) return true;
#endif
  return is_observed(thread);
}

}  // namespace gramme::cpython
