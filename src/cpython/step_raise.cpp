// Instructions that raise and handle exceptions, and those of `with`.
#include <iterator>

#include "base/ref.h"
#include "cpython/internal.h"
#include "cpython/steps.h"

namespace gramme::cpython {
namespace {

/// Raises the set exception without a new traceback entry: this frame has one from the first time.
Outcome raised_again(Step& s) {
  s.result.traceback = false;
  return Outcome::Raised;
}

/// A bare raise.
Outcome raise_handled(Step& s) {
  PyObject* exception = handled_exception(s.thread);
  if (!exception) {
    PyErr_SetString(PyExc_RuntimeError, "No active exception to reraise");
    return Outcome::Raised;
  }
  set_exception(exception);
  return raised_again(s);
}

/// The instance that `raise exc` raises; null with an error set.
Owned<> instance_to_raise(PyObject* exception) {
  if (PyExceptionClass_Check(exception)) {
    auto value = Owned<>::steal(PyObject_CallNoArgs(exception));
    if (!value || PyExceptionInstance_Check(value.get())) return value;
    PyErr_Format(PyExc_TypeError, "calling %R should have returned an instance of BaseException, not %R", exception,
                 Py_TYPE(value.get()));
    return {};
  }
  if (PyExceptionInstance_Check(exception)) return share(exception);
  PyErr_SetString(PyExc_TypeError, "exceptions must derive from BaseException");
  return {};
}

/// Sets __cause__ as `raise ... from cause` does; false with an error set.
bool set_cause(PyObject* exception, PyObject* cause) {
  Owned<> value;
  if (PyExceptionClass_Check(cause)) {
    value = Owned<>::steal(PyObject_CallNoArgs(cause));
    if (!value) return false;
  } else if (PyExceptionInstance_Check(cause)) {
    value = share(cause);
  } else if (cause != Py_None) {
    PyErr_SetString(PyExc_TypeError, "exception causes must derive from BaseException");
    return false;
  }
  PyException_SetCause(exception, value.release());
  return true;
}

}  // namespace

Outcome raise_varargs(Step& s) {
  if (s.arg == 0) return raise_handled(s);
  Owned<> exception = instance_to_raise(s.frame.item(s.arg));
  if (!exception) return Outcome::Raised;
  if (s.arg == 2 && !set_cause(exception.get(), s.frame.item(1))) return Outcome::Raised;
  PyErr_SetObject(PyExceptionInstance_Class(exception.get()), exception.get());
  return Outcome::Raised;
}

/// RERAISE: with an argument, the frame reports the saved instruction as raising, but the handler is looked up for
/// RERAISE itself. Otherwise a cleanup block would find itself forever.
Outcome reraise(Step& s) {
  if (s.arg) {
    const int lasti = s.frame.index_at(s.arg + 1);
    if (lasti < 0) {
      PyErr_SetString(PyExc_SystemError, "lasti is not an int");
      return Outcome::Raised;
    }
    s.frame.set_current(lasti);
  }
  auto exception = Owned<>::steal(s.frame.pop());
  set_exception(exception.get());
  return raised_again(s);
}

/// END_ASYNC_FOR: the items are dropped before the target is known, as in CPython.
Outcome end_async_for(Step& s) {
  auto exception = Owned<>::steal(s.frame.pop());
  if (!PyErr_GivenExceptionMatches(exception.get(), PyExc_StopAsyncIteration)) {
    set_exception(exception.get());
    return raised_again(s);
  }
  exception = {};
  s.frame.drop(1);
  return Outcome::Next;
}

Outcome cleanup_throw(Step& s) {
  PyObject* exception = s.frame.item();
  if (!PyErr_GivenExceptionMatches(exception, PyExc_StopIteration)) {
    set_exception(exception);
    return raised_again(s);
  }
  PyObject* value = Py_NewRef(reinterpret_cast<PyStopIterationObject*>(exception)->value);
  s.frame.drop_operands(3);
  s.frame.push(Py_NewRef(Py_None));
  s.frame.push(value);
  return Outcome::Next;
}

Outcome push_exc_info(Step& s) {
  _PyErr_StackItem* handling = s.thread->exc_info;
  PyObject* exception = s.frame.pop();
  s.frame.push(handling->exc_value ? handling->exc_value : Py_NewRef(Py_None));
  s.frame.push(Py_NewRef(exception));
  handling->exc_value = exception;
  return Outcome::Next;
}

Outcome pop_except(Step& s) {
  set_handled_exception(s.thread, s.frame.pop());
  return Outcome::Next;
}

Outcome check_exc_match(Step& s) {
  PyObject* wanted = s.frame.item();
#if GRAMME_PYTHON_EXPORTED_HELPERS
  if (_PyEval_CheckExceptTypeValid(s.thread, wanted) < 0) return Outcome::Raised;
#else
  const bool many = PyTuple_Check(wanted);
  for (Py_ssize_t i = 0; i < (many ? PyTuple_GET_SIZE(wanted) : 1); ++i) {
    if (PyExceptionClass_Check(many ? PyTuple_GET_ITEM(wanted, i) : wanted)) continue;
    PyErr_SetString(PyExc_TypeError, "catching classes that do not inherit from BaseException is not allowed");
    return Outcome::Raised;
  }
#endif
  return s.replace(1, new_bool(PyErr_GivenExceptionMatches(s.frame.item(2), wanted)));
}

namespace {

/// A special method of a with block; null with an error set.
Owned<> with_method(PyObject* manager, PyObject* name, const char* message) {
  auto method = Owned<>::steal(_PyObject_LookupSpecial(manager, name));
  if (!method && !PyErr_Occurred()) PyErr_Format(PyExc_TypeError, message, Py_TYPE(manager)->tp_name);
  return method;
}

}  // namespace

namespace {

struct WithNames {
  PyObject *enter, *exit;
  const char *no_enter, *no_exit;
};

/// Replaces the manager by its exit method.
Outcome enter_block(Step& s, const WithNames& names) {
  PyObject* manager = s.frame.item();
  Owned<> enter = with_method(manager, names.enter, names.no_enter);
  if (!enter) return Outcome::Raised;
  Owned<> exit = with_method(manager, names.exit, names.no_exit);
  if (!exit) return Outcome::Raised;
  s.frame.set_item(1, exit.release());
  return s.push(PyObject_CallNoArgs(enter.get()));
}

}  // namespace

Outcome before_with(Step& s) {
  static PyObject* const enter = intern("__enter__");
  static PyObject* const exit = intern("__exit__");
  return enter_block(s, {enter, exit, "'%.200s' object does not support the context manager protocol",
                         "'%.200s' object does not support the context manager protocol (missed __exit__ method)"});
}

Outcome before_async_with(Step& s) {
  static PyObject* const enter = intern("__aenter__");
  static PyObject* const exit = intern("__aexit__");
  return enter_block(
      s, {enter, exit, "'%.200s' object does not support the asynchronous context manager protocol",
          "'%.200s' object does not support the asynchronous context manager protocol (missed __aexit__ method)"});
}

#if GRAMME_PYTHON_SPECIAL_METHODS
Outcome load_special(Step& s) {
  PyObject* owner = s.frame.item();
  const int found = s.frame.load_special(special_name(s.arg));
  if (found > 0) return Outcome::Next;
  const _Py_SpecialMethod& method = _Py_SpecialMethods[s.arg];
  if (found == 0)
    PyErr_Format(PyExc_TypeError,
                 _PyEval_SpecialMethodCanSuggest(owner, s.arg) ? method.error_suggestion : method.error, owner);
  return Outcome::Raised;
}
#else
Outcome load_special(Step&) { return Outcome::HandOver; }
#endif

/// WITH_EXCEPT_START: the stack has __exit__ (or its function and self or NULL), the saved index, the exception handled
/// before, the exception.
Outcome with_except_start(Step& s) {
  PyObject* exception = s.frame.item();
  auto traceback = Owned<>::steal(PyException_GetTraceback(exception));
  PyObject* const self = kStack.with_pair ? s.frame.item(4) : nullptr;
  PyObject* args[] = {nullptr, self, PyExceptionInstance_Class(exception), exception,
                      traceback ? traceback.get() : Py_None};
  const size_t count = self ? 4 : 3;
  return s.push(PyObject_Vectorcall(s.frame.item(kStack.with_pair ? 5 : 4), std::end(args) - count,
                                    count | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
}

}  // namespace gramme::cpython
