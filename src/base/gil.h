// Holding the GIL, and letting it go, for as long as a scope lasts.
#pragma once
#include <Python.h>

namespace gramme {

/// On any thread, whether it has the GIL or not.
class GilHeld {
 public:
  GilHeld() : before_(PyGILState_Ensure()) {}
  ~GilHeld() { PyGILState_Release(before_); }
  GilHeld(const GilHeld&) = delete;

 private:
  const PyGILState_STATE before_;
};

/// On a thread that holds it.
class GilReleased {
 public:
  GilReleased() : thread_(PyEval_SaveThread()) {}
  ~GilReleased() { PyEval_RestoreThread(thread_); }
  GilReleased(const GilReleased&) = delete;

 private:
  PyThreadState* const thread_;
};

}  // namespace gramme
