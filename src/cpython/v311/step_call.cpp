// Making and calling functions.
#include <opcode.h>

#include <vector>

#include "base/ref.h"
#include "cpython/v311/internal.h"
#include "cpython/v311/steps.h"

namespace gramme::cpython {

Outcome make_function(Step& s) {
  PyObject* made = PyFunction_New(s.frame.item(), s.frame.globals());
  if (!made) return Outcome::Raised;
  s.frame.drop(1);
  auto* function = reinterpret_cast<PyFunctionObject*>(made);
  if (s.arg & 8) function->func_closure = s.frame.pop();
  if (s.arg & 4) function->func_annotations = s.frame.pop();
  if (s.arg & 2) function->func_kwdefaults = s.frame.pop();
  if (s.arg & 1) function->func_defaults = s.frame.pop();
  return s.push(made);
}

namespace {

PyObject* vectorcall(Step& s, PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  if (s.hook) return s.hook->call(s.hook->context, callable, args, nargsf, kwnames);
  return PyObject_Vectorcall(callable, args, nargsf, kwnames);
}

/// Moves on to the instruction behind `next`; its argument is read anew.
void advance(Step& s) {
  s.arg = 0;
  for (s.at = s.next;; ++s.at) {
    RawUnit unit = raw_unit(s.frame.code(), s.at);
    s.arg = s.arg << 8 | unit.arg;
    if (unit.opcode == EXTENDED_ARG) continue;
    s.next = s.at + 1 + cache_units(unit.opcode);
    break;
  }
  s.frame.set_current(s.at);
  s.result.raised_at = s.at;
}

/// PRECALL: [NULL, method, args] becomes [function, self, args].
void unpack_method(Step& s) {
  const int callable = s.arg + 1, below = s.arg + 2;
  PyObject* method = s.frame.item(callable);
  if (s.frame.item(below) || !Py_IS_TYPE(method, &PyMethod_Type)) return;
  s.frame.set_item(below, Py_NewRef(PyMethod_GET_FUNCTION(method)));
  s.frame.set_item(callable, Py_NewRef(PyMethod_GET_SELF(method)));
}

inline Outcome finish_call(Step& s, int operands, PyObject* result) {
  if (s.replace(operands, result) == Outcome::Raised) return Outcome::Raised;
  return check_pending(s) ? Outcome::Next : Outcome::Raised;
}

}  // namespace

/// KW_NAMES (if there are any), PRECALL and CALL: the names are on no stack, so nothing may come in between.
Outcome call(Step& s) {
  PyObject* kwnames = nullptr;
  if (raw_unit(s.frame.code(), s.at).opcode == KW_NAMES) {
    kwnames = s.constant(s.arg);
    advance(s);
  }
  unpack_method(s);
  advance(s);
  const bool has_self = s.frame.item(s.arg + 2) != nullptr;
  const int total = s.arg + has_self;
  const size_t positional = static_cast<size_t>(total - (kwnames ? PyTuple_GET_SIZE(kwnames) : 0));
  PyObject* result = vectorcall(s, s.frame.item(total + 1), s.frame.operands(total),
                                positional | PY_VECTORCALL_ARGUMENTS_OFFSET, kwnames);
  return finish_call(s, s.arg + 2, result);
}

StepResult step_call(PyThreadState* thread, LiveFrame frame, const bool* taken_over) {
  PyCodeObject* code = frame.code();
  const int at = frame.next() + 1 + cache_units(PRECALL);
  const bool plain = raw_unit(code, frame.next()).opcode == PRECALL && raw_unit(code, at).opcode == CALL;
  const int arguments = plain ? raw_unit(code, at).arg : 0;
  PyObject** operands = frame.operands(arguments + 2);
  if (!plain || (!operands[0] && Py_IS_TYPE(operands[1], &PyMethod_Type)))
    return step(thread, frame, nullptr, taken_over);
  frame.set_current(at);
  PyObject** callee = operands[0] ? operands : operands + 1;
  const auto count = static_cast<size_t>(arguments + (operands[0] != nullptr));
  PyObject* result = PyObject_Vectorcall(*callee, callee + 1, count | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  Step s{thread, frame, nullptr, taken_over, arguments, at, at + 1 + cache_units(CALL)};
  s.result.raised_at = at;
  s.result.outcome = finish_call(s, arguments + 2, result);
  if (s.result.outcome == Outcome::Next) frame.set_next(s.next);
  return s.result;
}

namespace {

/// The positional arguments as an exact tuple; null with an error set.
PyObject* args_tuple(PyObject* function, PyObject* args) {
  if (PyTuple_CheckExact(args)) return Py_NewRef(args);
  if (!Py_TYPE(args)->tp_iter && !PySequence_Check(args)) {
    if (auto shown = Owned<>::steal(_PyObject_FunctionStr(function)))
      PyErr_Format(PyExc_TypeError, "%U argument after * must be an iterable, not %.200s", shown.get(),
                   Py_TYPE(args)->tp_name);
    return nullptr;
  }
  return PySequence_Tuple(args);
}

/// The keyword arguments as an exact dict; null with an error set.
PyObject* kwargs_dict(PyObject* function, PyObject* kwargs) {
  if (PyDict_CheckExact(kwargs)) return Py_NewRef(kwargs);
  auto dict = Owned<>::steal(PyDict_New());
  if (!dict) return nullptr;
  if (_PyDict_MergeEx(dict.get(), kwargs, 2) == 0) return dict.release();
  set_kwargs_error(function, kwargs);
  return nullptr;
}

/// Calls the hook with tuple and dict laid out for vectorcall; keys that are no strings are CPython's to refuse.
PyObject* call_hook_flat(Step& s, PyObject* function, PyObject* args, PyObject* kwargs) {
  std::vector<PyObject*> flat{nullptr};  // room for ARGUMENTS_OFFSET
  const Py_ssize_t count = PyTuple_GET_SIZE(args);
  flat.insert(flat.end(), &PyTuple_GET_ITEM(args, 0), &PyTuple_GET_ITEM(args, 0) + count);
  Owned<> names;
  if (kwargs && PyDict_GET_SIZE(kwargs) > 0) {
    names = Owned<>::steal(PySequence_Tuple(kwargs));
    if (!names) return nullptr;
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(kwargs, &at, &key, &value);) {
      if (!PyUnicode_Check(key)) return PyObject_Call(function, args, kwargs);
      flat.push_back(value);
    }
  }
  std::vector<Owned<>> held;  // the dict may change while the call runs
  for (size_t i = 1 + static_cast<size_t>(count); i < flat.size(); ++i) held.push_back(share(flat[i]));
  return vectorcall(s, function, flat.data() + 1, static_cast<size_t>(count) | PY_VECTORCALL_ARGUMENTS_OFFSET,
                    names.get());
}

}  // namespace

Outcome call_function_ex(Step& s) {
  const bool has_kwargs = s.arg & 1;
  PyObject* function = s.frame.item(2 + has_kwargs);
  Owned<> kwargs;
  if (has_kwargs) {
    kwargs = Owned<>::steal(kwargs_dict(function, s.frame.item(1)));
    if (!kwargs) return Outcome::Raised;
  }
  auto args = Owned<>::steal(args_tuple(function, s.frame.item(1 + has_kwargs)));
  if (!args) return Outcome::Raised;
  PyObject* result = s.hook ? call_hook_flat(s, function, args.get(), kwargs.get())
                            : PyObject_Call(function, args.get(), kwargs.get());
  return finish_call(s, 3 + has_kwargs, result);
}

}  // namespace gramme::cpython
