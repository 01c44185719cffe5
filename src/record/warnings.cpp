// Replaces warnings.warn by a C function that notes the call and forwards it.
#include "record/warnings.h"

#include <utility>

#include "base/imported.h"
#include "base/once.h"
#include "base/process.h"

namespace gramme::native {
namespace {

struct Thread {
  bool warned = false;
};
thread_local constinit Thread of_thread;

struct State {
  int watches = 0;   // GIL: over all threads
  Owned<> original;  // GIL: warnings.warn as it was
};
Lasting<State> state;

/// Adds no Python frame, so the caller's stacklevel stays correct.
PyObject* note_and_warn(PyObject*, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  of_thread.warned = true;
  Owned<> callee = state->original;
  return PyObject_Vectorcall(callee.get(), arguments, static_cast<size_t>(count), names);
}

PyObject* replacement() {
  static PyMethodDef method = {"warn", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(note_and_warn)),
                               METH_FASTCALL | METH_KEYWORDS, nullptr};
  PyObject* const made = once([] { return take(PyCFunction_New(&method, nullptr)).release(); });
  return made;
}

PyObject* names_of_module() {
  PyObject* const module = once([] { return take(import_module("warnings")).release(); });
  return PyModule_GetDict(module);
}

}  // namespace

WarningsWatch::WarningsWatch() {
  of_thread.warned = false;
  if (state->watches++) return;
  PyObject* found = PyDict_GetItemString(names_of_module(), "warn");
  if (found == replacement()) return;  // other code restored our function, found during an earlier watch
  state->original = share(found);
  check(PyDict_SetItemString(names_of_module(), "warn", replacement()));
}

/// Keeps the original alive, because another thread may be about to call it.
WarningsWatch::~WarningsWatch() {
  if (--state->watches || PyDict_GetItemString(names_of_module(), "warn") != replacement()) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (PyDict_SetItemString(names_of_module(), "warn", state->original.get()) < 0) PyErr_Clear();
  PyErr_Restore(type, value, traceback);
}

bool WarningsWatch::take() { return std::exchange(of_thread.warned, false); }

}  // namespace gramme::native
