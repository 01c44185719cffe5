// Keeps context variables of a capture away from the program. Python code that gramme runs may set some (torch's
// settings keep copies in such); they are set in a copied context, which the program's copy_context() never sees.
#pragma once
#include "base/ref.h"

namespace gramme {

/// In the scope the thread runs in a copy of its context.
class CopiedContext {
 public:
  CopiedContext() : copy_(take(PyContext_CopyCurrent())) {
    if (PyContext_Enter(copy_.get()) < 0) throw PythonError();
  }
  ~CopiedContext() {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (PyContext_Exit(copy_.get()) < 0) PyErr_Clear();
    PyErr_Restore(type, value, traceback);
  }
  CopiedContext(const CopiedContext&) = delete;

 private:
  Owned<> copy_;
};

}  // namespace gramme
