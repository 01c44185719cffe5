// Decides when signal handlers run. CPython runs them between any two Python instructions of the main thread, including
// Python that gramme runs for itself. There nobody expects an exception: PyTorch's dispatcher calls Python from
// functions that must not throw, and an exception would count as the failure of an operator or a report.
//
//   SignalsHeld held;     // no handler runs in the scope: signals wait
//   look_for_signals();   // except here, unless several scopes are nested
//   SignalsLet let;       // and in the program's own code, called inside the scope
//
// Waiting handlers run after the outermost scope, at the next Python instruction or when CPython next checks. Defined
// in cpython: signals.cpp, handlers.cpp.
#pragma once
#include <Python.h>

#include <vector>

#include "base/ref.h"

namespace gramme {

/// Does nothing except on the main thread, the only one that handlers run on. Costs some 2 ns. Inside it
/// signal.signal() raises as on another thread, so the program's code must run in SignalsLet.
class SignalsHeld {
 public:
  SignalsHeld();
  ~SignalsHeld();
  SignalsHeld(const SignalsHeld&) = delete;

 private:
  const bool held_;
};

/// Lets handlers run again inside a SignalsHeld, for the program's own code, such as a backend.
class SignalsLet {
 public:
  SignalsLet();
  ~SignalsLet();
  SignalsLet(const SignalsLet&) = delete;

 private:
  const int depth_;
};

/// For PyTorch's compilers, which catch any Exception in places and then take another way, perhaps for the rest of the
/// process. In the scope handlers run when their signals come, but an Exception that one raises is kept back. Anything
/// else (KeyboardInterrupt) passes at once, and is recorded in case a compiler swallows it. Works only on the thread
/// that handlers run on.
class HandlersKept {
 public:
  HandlersKept();
  ~HandlersKept();
  HandlersKept(const HandlersKept&) = delete;
  /// True if a handler has raised.
  bool kept() const { return bool(kept_); }
  /// Sets what a handler raised as the Python exception, in place of one that is set; false if none raised.
  bool raise();
  /// Schedules what a handler raised for when handlers may run again; false if it is set as the exception instead.
  bool postpone();

 private:
  struct Hooked {
    Owned<> holder;
    vectorcallfunc* place;  // null for callables that are called through a slot of their type
    vectorcallfunc before;
    PyTypeObject* type;  // the type whose slot was replaced, if this object did that
    ternaryfunc slot_before;
  };
  static PyObject* call(PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* names);
  static PyObject* call_by_slot(PyObject* callable, PyObject* args, PyObject* keywords);
  static ternaryfunc slot_of(PyTypeObject* type);
  static const Hooked* find(const PyObject* callable);
  static PyObject* came_back(PyObject* result);
  void hook(PyObject* handler);
  void hook_handlers();
  PyObject* keep();

  HandlersKept* const outer_;
  std::vector<Hooked> hooked_;
  Owned<> kept_;
};

/// A signal handler raised, and its exception is set in Python: see is_interruption().
struct Interrupted : PythonError {};

namespace signals {
extern const volatile int* const pending;  // CPython's
/// Needs the GIL.
void run_handlers();
bool run_here();
/// True if handlers run on this thread, now.
bool is_main();
/// Makes CPython look for handlers and pending calls.
void wake();
/// Records that a handler raised this exception, for is_raised_by_look().
void note(const PyObject* exception);
}  // namespace signals

/// True if a signal has arrived whose handler may run here, on this thread. One load if none has; needs no GIL.
inline bool signals_wait() { return *signals::pending && signals::run_here(); }

/// Runs the handlers of arrived signals, unless nested scopes hold them. Throws Interrupted if one raises.
inline void look_for_signals() {
  if (signals_wait()) [[unlikely]]
    signals::run_handlers();
}

/// True if the exception at this address was the last one that look_for_signals() threw, or that HandlersKept set.
bool is_raised_by_look(const PyObject* exception);

}  // namespace gramme
