// Failed graphs: locating the node that raised, building the traceback, and a trace function that checks whether the
// uncompiled run raises the same kind of exception.
#include "runtime/failure.h"

#include "base/imported.h"
#include "cpython/frame.h"
#include "cpython/objects.h"

namespace gramme::runtime {
namespace {

struct Thread {
  PlainRun* running = nullptr;  // the innermost
};
thread_local constinit Thread of_thread;

/// Calls a function of gramme._handover, which words the errors of backends.
template <class... A>
Owned<> ask(const char* function, const char* format, A... arguments) {
  auto module = Owned<>::steal(import_module("gramme._handover"));
  return Owned<>::steal(module ? PyObject_CallMethod(module.get(), function, format, arguments...) : nullptr);
}

PyObject* or_none(PyObject* object) { return object ? object : Py_None; }

void raise(PyObject* error) { PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error); }

/// True for exception types that operators raise. A compiled kernel may raise another of them than eager's does.
bool is_of_operators(PyTypeObject* type) {
  for (PyObject* base : {PyExc_RuntimeError, PyExc_IndexError, PyExc_ValueError})
    if (PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(base))) return true;
  return false;
}

bool alike(PyTypeObject* a, PyTypeObject* b) {
  return PyType_IsSubtype(a, b) || PyType_IsSubtype(b, a) || (is_of_operators(a) && is_of_operators(b));
}

}  // namespace

std::unique_ptr<Failure> take_failure(PyObject* backend, PyObject* compiled, size_t node) {
  auto failure = std::make_unique<Failure>(cpython::take_exception(), node);
  static PyObject* const name = intern("locate");
  if (node != Failure::kUnknown || !backend) return failure;
  auto locate = Owned<>::steal(PyObject_GetAttr(backend, name));
  auto found = Owned<>::steal(
      locate ? PyObject_CallFunctionObjArgs(locate.get(), compiled, failure->error.get(), nullptr) : nullptr);
  if (found && PyLong_Check(found.get())) failure->node = PyLong_AsSize_t(found.get());
  PyErr_Clear();
  return failure;
}

int raise_at_node(const plan::LastingWrites* writes, const Failure& failure, PyFunctionObject* root) {
  auto traceback = Owned<>::steal(PyException_GetTraceback(failure.error.get()));
  const bool known = writes && failure.node < writes->place_of.size();
  int at = known ? writes->place_of[failure.node] : -1;
  for (; at >= 0 && writes->places[static_cast<size_t>(at)].caller >= 0;
       at = writes->places[static_cast<size_t>(at)].caller) {
    const plan::LastingWrites::Place& place = writes->places[static_cast<size_t>(at)];
    traceback = cpython::traceback_entry(traceback.get(), reinterpret_cast<PyCodeObject*>(place.code.get()), place.unit,
                                         nullptr);
  }
  const int unit = at < 0 ? -1 : writes->places[static_cast<size_t>(at)].unit;
  if (root) traceback = cpython::traceback_entry(traceback.get(), cpython::code_of(root), unit, root->func_globals);
  PyException_SetTraceback(failure.error.get(), or_none(traceback.get()));
  raise(failure.error.get());
  return unit;
}

std::unique_ptr<Failure> wrong_outputs(PyObject* backend, Py_ssize_t wanted, Py_ssize_t given) {
  Owned<> error = ask("wrong_outputs", "Onn", or_none(backend), wanted, given);
  if (!error) error = cpython::take_exception();
  return std::make_unique<Failure>(std::move(error), Failure::kUnknown, true);
}

void let_go(const Failure& failure) {
  auto entry = Owned<>::steal(PyException_GetTraceback(failure.error.get()));
  for (; entry;
       entry = share(reinterpret_cast<PyObject*>(reinterpret_cast<PyTracebackObject*>(entry.get())->tb_next))) {
    auto* frame = reinterpret_cast<PyObject*>(reinterpret_cast<PyTracebackObject*>(entry.get())->tb_frame);
    if (!Owned<>::steal(PyObject_CallMethod(frame, "clear", nullptr))) PyErr_Clear();
  }
}

PlainRun::PlainRun(PyThreadState* thread, std::unique_ptr<Failure> failure, PyObject* backend)
    : thread_(thread),
      failure_(std::move(failure)),
      backend_(share(or_none(backend))),
      outer_(of_thread.running),
      watches_(failure_ && backend && !thread->c_tracefunc) {
  if (!watches_) return;
  of_thread.running = this;
  PyEval_SetTrace(trace, nullptr);
}

PlainRun::~PlainRun() { stop(); }

/// Removes the trace function, unless the program has set its own in the meantime.
void PlainRun::stop() {
  if (!std::exchange(watches_, false)) return;
  of_thread.running = outer_;
  ErrorState keep;
  if (thread_->c_tracefunc == trace) PyEval_SetTrace(nullptr, nullptr);
}

int PlainRun::trace(PyObject*, PyFrameObject*, int what, PyObject* arg) {
  if (what != PyTrace_EXCEPTION || !of_thread.running || of_thread.running->met_) return 0;
  PyObject* raised = PyTuple_GET_ITEM(arg, 0);
  of_thread.running->met_ = PyType_Check(raised) && alike(reinterpret_cast<PyTypeObject*>(raised),
                                                          Py_TYPE(of_thread.running->failure_->error.get()));
  return 0;
}

PyObject* PlainRun::finish(PyObject* result) {
  const bool watched = watches_;
  stop();
  auto owned = Owned<>::steal(result);
  if (!owned || !watched || met_) return owned.release();
  Owned<> error = ask("not_reproduced", "OO", backend_.get(), failure_->error.get());
  if (!error) return nullptr;
  if (error.get() == Py_None) return owned.release();
  raise(error.get());
  return nullptr;
}

}  // namespace gramme::runtime
