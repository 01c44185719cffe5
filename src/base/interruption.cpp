#include "base/interruption.h"

#include <Python.h>
#include <frameobject.h>

#include "base/ref.h"

namespace gramme {
namespace {

bool holds(PyObject* tuple, PyObject* item) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
    if (PyTuple_GET_ITEM(tuple, i) == item) return true;
  return false;
}

struct Search {
  PyObject* object;
  int met = 0;
};

int look(PyObject* held, void* arg) {
  auto& search = *static_cast<Search*>(arg);
  search.met += held == search.object || (PyTuple_Check(held) && holds(held, search.object));
  return 0;
}

/// A handler is given the frame that it interrupts, which is the one below its own: it holds it once more. Asking for
/// the variables would keep them alive.
bool handles_signal(PyFrameObject* frame) {
  auto below = Owned<>::steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(frame)));
  if (!below) return false;
  Search search{below.get()};
  Py_TYPE(frame)->tp_traverse(reinterpret_cast<PyObject*>(frame), look, &search);
  return search.met > 1;
}

bool raised_by_handler(PyObject* traceback) {
  for (auto* entry = reinterpret_cast<PyTracebackObject*>(traceback); entry; entry = entry->tb_next)
    if (handles_signal(entry->tb_frame)) return true;
  return false;
}

}  // namespace

bool is_interruption() {
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return true;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  const bool raised = raised_by_handler(traceback);
  PyErr_Restore(type, value, traceback);
  return raised;
}

}  // namespace gramme
