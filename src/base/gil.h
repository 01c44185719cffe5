// Holds or releases the GIL for the length of a scope.
#pragma once
#include <Python.h>

namespace gramme {

/// For any thread, whether it holds the GIL or not.
class GilHeld {
 public:
  GilHeld() : before_(PyGILState_Ensure()) {}
  ~GilHeld() { PyGILState_Release(before_); }
  GilHeld(const GilHeld&) = delete;

 private:
  const PyGILState_STATE before_;
};

/// For a thread that holds the GIL.
class GilReleased {
 public:
  GilReleased() : thread_(PyEval_SaveThread()) {}
  ~GilReleased() { PyEval_RestoreThread(thread_); }
  GilReleased(const GilReleased&) = delete;

 private:
  PyThreadState* const thread_;
};

}  // namespace gramme
