// Silences warnings and logs of an operation that runs on fake tensors: it repeats them when it really runs. Warnings,
// tensors that autograd saves, for which there may be hooks, and the log of the fakes.
#pragma once
#include "base/ref.h"

namespace gramme::meta {

/// Active from construction to destruction, on this thread. Nothing of it is left in `warnings`: no filter, no entry in
/// a registry; what PyTorch says once in a process is not said yet.
class Silence {
 public:
  Silence();
  ~Silence();
  Silence(const Silence&) = delete;
  /// function(*args, **kwargs), a few frames away from the program's: a warning writes into the globals of the frame it
  /// is about.
  static PyObject* call(PyObject* function, PyObject* args, PyObject* kwargs);

  bool warned = false;
  Owned<> text;  // of the last warning

 private:
  Silence* outer_;
  Owned<> module_, filters_;
  bool always_, unhooked_;
};

/// fake_tensor.py logs every failing operator; in inference a failure is an answer.
class Quiet {
 public:
  Quiet();
  ~Quiet();
  Quiet(const Quiet&) = delete;

 private:
  static inline int depth_ = 0;  // under the GIL; inferences of other threads and nested ones count too
};

/// What PyTorch warns of where a list is taken for a tuple of subscripts because it holds a slice, or else None or ...;
/// null if it does not. Lives as long as the process.
PyObject* warning_of_list_as_subscript(bool slice);

}  // namespace gramme::meta
