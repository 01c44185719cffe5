// What an operation tells others while it runs on fakes: unheard, since it says it again when it runs. Warnings, and
// tensors that autograd saves, for which there may be hooks.
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

 private:
  Silence* outer_;
  Owned<> module_, filters_;
  bool always_, unhooked_;
};

}  // namespace gramme::meta
