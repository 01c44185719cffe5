// When handlers of signals run. CPython runs them between any two instructions of Python on the main thread, also of
// the Python that gramme runs on its own behalf, where nobody expects an exception: PyTorch's dispatcher calls it from
// functions that must not throw, and what fails there is taken for the failure of an operator or of a report.
//
//   SignalsHeld held;     // none runs in the scope: what arrives waits
//   look_for_signals();   // but here, where the outermost such scope has nothing open
//   SignalsLet let;       // and in the program's own code, which the scope calls
//
// What waits runs behind the outermost scope, as soon as Python does, or CPython asks for it.
// Defined in cpython: signals.cpp, handlers.cpp.
#pragma once
#include <Python.h>

#include <vector>

#include "base/ref.h"

namespace gramme {

/// Nothing on other threads than the main one, which no handler runs on. Costs some 2 ns. Inside it signal.signal()
/// refuses, as on another thread: the program's code stands in SignalsLet.
class SignalsHeld {
 public:
  SignalsHeld();
  ~SignalsHeld();
  SignalsHeld(const SignalsHeld&) = delete;

 private:
  const bool held_;
};

/// The opposite, for the program's own code: a backend.
class SignalsLet {
 public:
  SignalsLet();
  ~SignalsLet();
  SignalsLet(const SignalsLet&) = delete;

 private:
  const int depth_;
};

/// For compilers of PyTorch, which catch each Exception in places and go on another way, for the rest of the process
/// perhaps. In the scope handlers run when their signals come, but an Exception that one raises waits. Anything else
/// (KeyboardInterrupt) passes at once, and is known if it does not come out. Only on the thread that handlers run on.
class HandlersKept {
 public:
  HandlersKept();
  ~HandlersKept();
  HandlersKept(const HandlersKept&) = delete;
  /// True if a handler has raised.
  bool kept() const { return bool(kept_); }
  /// Sets what a handler raised, in the place of what is set; false if none did.
  bool raise();
  /// What one raised comes as soon as handlers may run; false if it is set instead.
  bool postpone();

 private:
  struct Hooked {
    Owned<> holder;
    vectorcallfunc* place;  // null for those that are called by a slot of their type
    vectorcallfunc before;
    PyTypeObject* type;  // whose slot it is, if this one wrote there
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

/// What a handler raised, set as the Python exception: see is_interruption().
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
/// Notes the exception as one that a handler raised, for is_raised_by_look().
void note(const PyObject* exception);
}  // namespace signals

/// True if a signal has arrived whose handler may run here, on this thread. One load where there is none; needs no GIL.
inline bool signals_wait() { return *signals::pending && signals::run_here(); }

/// Runs the handlers of what has arrived, unless a section inside another section holds them. Throws Interrupted for
/// what they raise.
inline void look_for_signals() {
  if (signals_wait()) [[unlikely]]
    signals::run_handlers();
}

/// True if the exception at this address was the last one that look_for_signals() threw, or that HandlersKept set.
bool is_raised_by_look(const PyObject* exception);

}  // namespace gramme
