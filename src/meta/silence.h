// Suppresses warnings, saved-tensor hooks and log entries of an operation that runs on fake tensors: it repeats them
// when it really runs.
#pragma once
#include "base/ref.h"

namespace gramme::meta {

/// Scope of suppression on this thread. Leaves no filter and no registry entry in `warnings`; PyTorch's
/// once-per-process warnings stay pending.
class Silence {
 public:
  Silence();
  ~Silence();
  Silence(const Silence&) = delete;
  /// Calls function(*args, **kwargs) some frames away from the program's, since a warning writes into the globals of
  /// the frame it names.
  static PyObject* call(PyObject* function, PyObject* args, PyObject* kwargs);

  bool warned = false;
  Owned<> text;  // text of the last warning

 private:
  Silence* outer_;
  Owned<> module_, filters_;
  bool always_, unhooked_;
};

/// Scope that silences fake_tensor.py's log of failing operators, since in inference a failure is a valid answer.
class Quiet {
 public:
  Quiet();
  ~Quiet();
  Quiet(const Quiet&) = delete;
};

/// PyTorch's warning text for a list used as a tuple of subscripts because it has a slice (`slice`), or else None or
/// ...; null if this version does not warn. Lives as long as the process.
PyObject* warning_of_list_as_subscript(bool slice);

}  // namespace gramme::meta
