// Finds out whether a signal handler raised: CPython does not mark its exceptions. A handler's frame holds a signal's
// number followed by the frame that it interrupted, among its arguments.
#include "base/interruption.h"

#include <Python.h>
#include <frameobject.h>

#include <csignal>

#include "base/ref.h"
#include "base/signals.h"

namespace gramme {
namespace {

bool is_signal(PyObject* object) {
  if (!object || !PyLong_CheckExact(object)) return false;
  int overflow = 0;
  const long number = PyLong_AsLongAndOverflow(object, &overflow);
  return !overflow && number > 0 && number < NSIG;
}

/// Looks for a signal's number followed by the interrupted frame: a handler's arguments.
struct Search {
  PyObject* frame;
  PyObject* before = nullptr;
  bool met = false;

  void look(PyObject* object) {
    met |= object == frame && is_signal(before);
    before = object;
  }
};

int look(PyObject* held, void* arg) {
  auto& search = *static_cast<Search*>(arg);
  if (PyTuple_Check(held))
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(held); ++i) search.look(PyTuple_GET_ITEM(held, i));
  else
    search.look(held);
  return 0;
}

/// A handler's second argument is the frame that it interrupts, which is the one below its own. tp_traverse visits the
/// variables; reading f_locals would keep them alive.
bool handles_signal(PyFrameObject* frame) {
  auto below = Owned<>::steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(frame)));
  if (!below) return false;
  Search search{below.get()};
  Py_TYPE(frame)->tp_traverse(reinterpret_cast<PyObject*>(frame), look, &search);
  return search.met;
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
  const bool raised = is_raised_by_look(value) || raised_by_handler(traceback);
  PyErr_Restore(type, value, traceback);
  return raised;
}

bool drop(PyObject* type, PyObject* value, PyObject* traceback) {
  const bool stays = is_interruption();
  if (!stays) {
    PyErr_WriteUnraisable(nullptr);
    PyErr_Restore(type, value, traceback);
    return true;
  }
  for (PyObject* object : {type, value, traceback}) Owned<>::steal(object);
  return false;
}

}  // namespace gramme
