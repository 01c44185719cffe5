// A graph that raised: decides whether the exception is the program's own or its backend's.
#pragma once
#include <Python.h>

#include <memory>

#include "base/ref.h"
#include "plan/segment.h"

namespace gramme::runtime {

/// The exception of a graph that raised, and where it was raised.
struct Failure {
  static constexpr size_t kUnknown = static_cast<size_t>(-1);
  Owned<> error;           // with its traceback
  size_t node = kUnknown;  // the node that raised, not counting placeholders
  bool at_once = false;    // the backend returned a wrong number of outputs
};

/// Takes the exception that is set. Asks the backend for the node if it is unknown.
std::unique_ptr<Failure> take_failure(PyObject* backend, PyObject* compiled, size_t node);

/// Clears the frames in the traceback, as if the graph had not run. Must precede the restoring of modes, since frames
/// may hold modes.
void let_go(const Failure& failure);

/// Sets the exception again, with traceback entries for the calls around the node; with `root`, also one for the
/// captured frame of that function. Returns the code unit in that frame, -1 if unknown.
int raise_at_node(const plan::LastingWrites* writes, const Failure& failure, PyFunctionObject* root);

/// The error for a backend that returned a wrong number of outputs; `given` is -1 if its result is no sequence.
std::unique_ptr<Failure> wrong_outputs(PyObject* backend, Py_ssize_t wanted, Py_ssize_t given);

/// Scope in which CPython runs the code whose graph failed.
class PlainRun {
 public:
  /// Without a failure or a backend, nothing is checked.
  PlainRun(PyThreadState* thread, std::unique_ptr<Failure> failure, PyObject* backend);
  ~PlainRun();
  PlainRun(const PlainRun&) = delete;
  /// Returns the run's result (new reference or null). Raises the backend's exception if the program did not raise one
  /// like it.
  PyObject* finish(PyObject* result);

 private:
  static int trace(PyObject*, PyFrameObject*, int what, PyObject* arg);
  void stop();

  PyThreadState* thread_;
  std::unique_ptr<Failure> failure_;
  Owned<> backend_;
  PlainRun* outer_;
  bool watches_, met_ = false;  // met_: the program raised one like it
};

}  // namespace gramme::runtime
