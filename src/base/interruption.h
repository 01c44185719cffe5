// Exceptions that come to the program from outside, wherever it happens to be.
#pragma once
#include "base/ref.h"

namespace gramme {

/// True if the set exception interrupts the program: no Exception (KeyboardInterrupt, SystemExit), or raised by a
/// signal handler. The program gets it where it stands. What raises it while gramme works is no failure of the backend,
/// a graph or an operator.
bool is_interruption();

/// Prints the exception that is set and drops it, and puts the earlier one back, unless it interrupts the program: then
/// it stays. The one place that drops what Python raised without an answer to it.
bool drop(PyObject* type, PyObject* value, PyObject* traceback);

/// Runs what gramme does beside the program: reports, counters, callbacks of listeners. What fails there disturbs
/// nobody. False with the exception set for what interrupts the program, in the place of one that was set before.
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

/// The same, where an exception may pass.
template <class Body>
void apart_or_throw(Body body) {
  if (!apart(body)) throw PythonError();
}

}  // namespace gramme
