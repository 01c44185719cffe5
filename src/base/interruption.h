// Tells exceptions that interrupt the program (Ctrl-C, exits, signal handlers) from failures of gramme's own calls.
#pragma once
#include "base/ref.h"

namespace gramme {

/// True if the set exception interrupts the program: it is no Exception (KeyboardInterrupt, SystemExit), or a signal
/// handler raised it. It goes on to the program, and never counts as a failure of a backend, a graph or an operator.
bool is_interruption();

/// Prints and drops the set exception and puts the earlier one back, unless the set one interrupts the program: then it
/// stays. No other place drops an unexpected exception of Python's.
bool drop(PyObject* type, PyObject* value, PyObject* traceback);

/// Runs work of gramme's beside the program: reports, counters, callbacks of listeners. Its failures are printed and
/// dropped. False if an interruption came: it is set then, in place of an exception that was set before.
template <class Body>
bool apart(Body body) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  try {
    body();
  } catch (const PythonError&) {
    return drop(type, value, traceback);
  }
  PyErr_Restore(type, value, traceback);
  return true;
}

/// The same, but throws the interruption.
template <class Body>
void apart_or_throw(Body body) {
  if (!apart(body)) throw PythonError();
}

}  // namespace gramme
