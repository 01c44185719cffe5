// Intercepts signal handlers: a handler is called through its vectorcall slot, or its type's tp_call if it has none.
// Replacing that slot intercepts the call, and the program sees no other change.
#include <unistd.h>

#include <csignal>
#include <utility>

#include "base/imported.h"
#include "base/once.h"
#include "base/process.h"
#include "base/signals.h"
#include "cpython/internal.h"

namespace gramme {
namespace {

struct State {
  HandlersKept* innermost = nullptr;  // main thread
  pid_t process = 0;                  // main thread: the process of these scopes; a forked child has none
};
Lasting<State> state;

/// The object whose vectorcall slot calls the handler: the handler, or its class's __call__ function. Null if the
/// type's tp_call does.
PyObject* holder_of(PyObject* handler) {
  if (PyType_HasFeature(Py_TYPE(handler), Py_TPFLAGS_HAVE_VECTORCALL)) return handler;
  static PyObject* const name = intern("__call__");
  PyObject* call = _PyType_Lookup(Py_TYPE(handler), name);
  return call && PyFunction_Check(call) ? call : nullptr;
}

vectorcallfunc* place_of(PyObject* holder) {
  return reinterpret_cast<vectorcallfunc*>(reinterpret_cast<char*>(holder) + Py_TYPE(holder)->tp_vectorcall_offset);
}

/// True if the arguments, after `self` if there is one, are those of a signal handler: a signal's number and a frame.
bool is_of_signal(PyObject* const* args, Py_ssize_t count) {
  if (count < 2) return false;
  PyObject *number = args[count - 2], *frame = args[count - 1];
  return PyLong_CheckExact(number) && (frame == Py_None || PyFrame_Check(frame));
}

/// Raises the exception in a pending call, which CPython runs where it runs handlers.
int raise_late(void* exception) {
  Owned<> value = Owned<>::steal(static_cast<PyObject*>(exception));
  PyErr_Restore(share(reinterpret_cast<PyObject*>(Py_TYPE(value.get()))).release(), share(value.get()).release(),
                PyException_GetTraceback(value.get()));
  return -1;
}

}  // namespace

HandlersKept::HandlersKept() : outer_(state->innermost) {
  if (!signals::is_main()) return;
  state->innermost = this;
  state->process = getpid();
  hook_handlers();
}

HandlersKept::~HandlersKept() {
  if (state->innermost != this) return;
  state->innermost = outer_;
  for (const Hooked& hooked : hooked_) {
    if (hooked.place) *hooked.place = hooked.before;
    if (hooked.type && hooked.type->tp_call == call_by_slot) hooked.type->tp_call = hooked.slot_before;
  }
  const ErrorState pending;
  hooked_.clear();
}

void HandlersKept::hook(PyObject* handler) {
  if (!PyCallable_Check(handler) || find(handler)) return;
  if (PyObject* holder = holder_of(handler)) {
    vectorcallfunc* place = place_of(holder);
    if (*place == call) return;
    if (*place || PyType_Check(handler)) {
      hooked_.push_back({share(holder), place, *place, nullptr, nullptr});
      *place = call;
      return;
    }
  }
  PyTypeObject* type = Py_TYPE(handler);
  const bool first = type->tp_call != call_by_slot;
  hooked_.push_back({share(handler), nullptr, nullptr, first ? type : nullptr, first ? type->tp_call : nullptr});
  type->tp_call = call_by_slot;
}

void HandlersKept::hook_handlers() {
  const ErrorState pending;
  PyObject* const ask = once([] { return imported("_signal", "getsignal").release(); });
  for (int number = 1; number < NSIG; ++number) {
    const Owned<> key = take(PyLong_FromLong(number));
    const Owned<> handler = Owned<>::steal(PyObject_CallOneArg(ask, key.get()));
    PyErr_Clear();
    if (handler) hook(handler.get());
  }
}

const HandlersKept::Hooked* HandlersKept::find(const PyObject* callable) {
  for (const HandlersKept* scope = state->innermost; scope; scope = scope->outer_)
    for (const Hooked& hooked : scope->hooked_)
      if (hooked.holder.get() == callable) return &hooked;
  return nullptr;
}

PyObject* HandlersKept::call(PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* names) {
  const vectorcallfunc before = find(callable)->before;  // found, since the slot is restored when the scope ends
  const Py_ssize_t count = PyVectorcall_NARGS(nargsf);
  PyObject* result = before ? before(callable, args, nargsf, names)
                            : _PyObject_MakeTpCall(PyThreadState_Get(), callable, args, count, names);
  return !names && is_of_signal(args, count) ? came_back(result) : result;
}

/// The type's original tp_call; a class made meanwhile has inherited the replaced one from its base.
ternaryfunc HandlersKept::slot_of(PyTypeObject* type) {
  for (; type->tp_call == call_by_slot; type = type->tp_base)
    for (const HandlersKept* scope = state->innermost; scope; scope = scope->outer_)
      for (const Hooked& hooked : scope->hooked_)
        if (hooked.type == type) return hooked.slot_before;
  return type->tp_call;
}

PyObject* HandlersKept::call_by_slot(PyObject* callable, PyObject* args, PyObject* keywords) {
  PyObject* result = slot_of(Py_TYPE(callable))(callable, args, keywords);
  const bool of_signal = PyTuple_GET_SIZE(args) == 2 && is_of_signal(&PyTuple_GET_ITEM(args, 0), 2);
  return of_signal && !keywords && find(callable) ? came_back(result) : result;
}

PyObject* HandlersKept::came_back(PyObject* result) {
  if (!signals::is_main() || state->process != getpid() || !state->innermost) return result;
  if (!result) result = state->innermost->keep();
  state->innermost->hook_handlers();  // the handler may have set other handlers
  return result;
}

PyObject* HandlersKept::keep() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback) PyException_SetTraceback(value, traceback);
  if (kept_ && kept_.get() != value && !Owned<>::steal(PyException_GetContext(value)))
    PyException_SetContext(value, share(kept_.get()).release());
  kept_ = share(value);
  const bool waits = PyErr_GivenExceptionMatches(type, PyExc_Exception);
  PyErr_Restore(type, value, traceback);
  if (!waits) return nullptr;
  PyErr_Clear();
  return Py_NewRef(Py_None);
}

bool HandlersKept::raise() {
  if (!kept_) return false;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (value == kept_.get()) {
    PyErr_Restore(type, value, traceback);
  } else {
    for (PyObject* object : {type, value, traceback}) Owned<>::steal(object);
    raise_late(share(kept_.get()).release());
  }
  signals::note(kept_.get());
  return true;
}

bool HandlersKept::postpone() {
  Owned<> exception = kept_;
  if (Py_AddPendingCall(raise_late, exception.get()) < 0) return !raise();  // the queue of pending calls is full
  exception.release();
  signals::wake();
  return true;
}

}  // namespace gramme
