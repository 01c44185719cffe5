// A graph that raised: what of it is the program's own exception, and what its backend's.
#pragma once
#include <Python.h>

#include <memory>

#include "base/ref.h"
#include "plan/segment.h"

namespace gramme::runtime {

/// What a graph raised.
struct Failure {
  static constexpr size_t kUnknown = static_cast<size_t>(-1);
  Owned<> error;           // with its traceback
  size_t node = kUnknown;  // that raised, counted without placeholders
  bool at_once = false;    // it gave another number of outputs than it has
};

/// Takes the exception that is set. The node, where it is not known yet, is the backend's to tell.
std::unique_ptr<Failure> take_failure(PyObject* backend, PyObject* compiled, size_t node);

/// What the graph's frames held dies now, as if the graph had not run: modes among it, so before modes are put back.
void let_go(const Failure& failure);

/// Sets the exception again, with traceback entries for the calls around the node. The frame that was captured gets one
/// if `root` is its function. The code unit in that frame, -1 if it is not known.
int raise_at_node(const plan::LastingWrites* writes, const Failure& failure, PyFunctionObject* root);

/// The backend gave another number of outputs than its graph has; -1: nothing that has a number of them.
std::unique_ptr<Failure> wrong_outputs(PyObject* backend, Py_ssize_t wanted, Py_ssize_t given);

/// In the scope, the program runs plainly what a graph failed at.
class PlainRun {
 public:
  /// Without a failure, or anybody to blame for it, it only runs.
  PlainRun(PyThreadState* thread, std::unique_ptr<Failure> failure, PyObject* backend);
  ~PlainRun();
  PlainRun(const PlainRun&) = delete;
  /// What the run gave, new reference or null, becomes the answer: an exception of the backend that the program did not
  /// raise too is raised now.
  PyObject* finish(PyObject* result);

 private:
  static int trace(PyObject*, PyFrameObject*, int what, PyObject* arg);
  void stop();

  PyThreadState* thread_;
  std::unique_ptr<Failure> failure_;
  Owned<> backend_;
  PlainRun* outer_;
  bool watches_, met_ = false;  // has the program raised the like?
};

}  // namespace gramme::runtime
