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

/// A handler is given the frame that it interrupts, which is the one below its own.
bool handles_signal(PyFrameObject* frame) {
  auto below = Owned<>::steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(frame)));
  if (!below) return false;
  auto code = Owned<PyCodeObject>::steal(PyFrame_GetCode(frame));
  auto names = Owned<>::steal(PyCode_GetVarnames(code.get())), values = Owned<>::steal(PyFrame_GetLocals(frame));
  if (!names || !values) return false;
  const int rest = (code->co_flags & CO_VARARGS) != 0;
  for (int i = 0; i < code->co_argcount + rest; ++i) {
    const int at = i < code->co_argcount ? i : i + code->co_kwonlyargcount;
    PyObject* value = PyObject_GetItem(values.get(), PyTuple_GET_ITEM(names.get(), at));
    const auto held = Owned<>::steal(value);
    if (value == below.get() || (value && PyTuple_Check(value) && holds(value, below.get()))) return true;
    PyErr_Clear();
  }
  return false;
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
  const bool raised = traceback && raised_by_handler(traceback);
  PyErr_Clear();
  PyErr_Restore(type, value, traceback);
  return raised;
}

}  // namespace gramme
