// Instructions that make and call functions.
#include <vector>

#include "base/ref.h"
#include "cpython/internal.h"
#include "cpython/steps.h"

namespace gramme::cpython {

namespace {

/// The member of the function that a flag of MAKE_FUNCTION stands for.
PyObject** kept_by(PyFunctionObject* function, int flag) {
  switch (flag) {
    case 1:
      return &function->func_defaults;
    case 2:
      return &function->func_kwdefaults;
    case 4:
      return &function->func_annotations;
    case 8:
      return &function->func_closure;
#if GRAMME_PYTHON_ANNOTATE
    case 16:
      return &function->func_annotate;
#endif
    default:
      return nullptr;
  }
}

}  // namespace

Outcome make_function(Step& s) {
  PyObject* made = PyFunction_New(s.frame.item(), s.frame.globals());
  if (!made) return Outcome::Raised;
  s.frame.drop(1);
  for (int flag = 8; flag; flag >>= 1)
    if (s.arg & flag) *kept_by(reinterpret_cast<PyFunctionObject*>(made), flag) = s.frame.pop();
  return s.push(made);
}

Outcome set_function_attribute(Step& s) {
  PyObject** place = kept_by(reinterpret_cast<PyFunctionObject*>(s.frame.item()), s.arg);
  if (!place) return Outcome::HandOver;
  s.frame.swap(2);
  *place = s.frame.pop();
  return Outcome::Next;
}

namespace {

bool is_hooked(const Step& s, PyObject* callable) { return s.hook && (!s.hook->only || s.hook->only == callable); }

PyObject* vectorcall(Step& s, PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  if (is_hooked(s, callable)) return s.hook->call(s.hook->context, callable, args, nargsf, kwnames);
  return PyObject_Vectorcall(callable, args, nargsf, kwnames);
}

/// The depths of a callable and its NULL, or of a function and self.
struct Callee {
  int low, high;
  bool has_self;

  Callee(Step& s, int arguments) : low(arguments + 2), high(arguments + 1) {
    has_self = s.frame.item_kind(kStack.null_above ? high : low) != SlotKind::Empty;
    PyObject* method = s.frame.item(callable());
    if (has_self || !Py_IS_TYPE(method, &PyMethod_Type)) return;
    const Owned<> held = share(method);
    s.frame.set_item(low, Py_NewRef(PyMethod_GET_FUNCTION(method)));
    s.frame.set_item(high, Py_NewRef(PyMethod_GET_SELF(method)));
    has_self = true;
  }
  int callable() const { return has_self || kStack.null_above ? low : high; }
};

/// Drops the operands in the instruction's order, whether the call failed or not.
inline Outcome finish_call(Step& s, int operands, PyObject* result) {
  if (!result) {
    s.frame.drop_operands(operands);
    return Outcome::Raised;
  }
  s.frame.replace(operands, result);
  return check_pending(s) ? Outcome::Next : Outcome::Raised;
}

/// Calls with `above` items on top of the arguments.
Outcome call_with(Step& s, PyObject* names, int above) {
  const Callee callee(s, s.arg + above);
  const int total = s.arg + callee.has_self;
  PyObject* callable = s.frame.item(callee.callable());
#if GRAMME_PYTHON_MOVES_ARGUMENTS
  if (!is_hooked(s, callable) && !s.taken_over && PyFunction_Check(callable))
    return finish_call(s, callee.low, s.frame.call_moved(s.thread, callee.callable(), total, above, names));
#endif
  const auto positional = static_cast<size_t>(total - (names ? PyTuple_GET_SIZE(names) : 0));
  OperandArray arguments(s.frame, total, above);
  PyObject* result = vectorcall(s, callable, arguments.get(), positional | PY_VECTORCALL_ARGUMENTS_OFFSET, names);
  return finish_call(s, callee.low, result);
}

}  // namespace

/// CALL. On versions with keyword names outside the stack, nothing may run between their instruction and the call.
Outcome call(Step& s) { return call_with(s, s.decoded.names < 0 ? nullptr : s.constant(s.decoded.names), 0); }

Outcome call_kw(Step& s) { return call_with(s, s.frame.item(), 1); }

namespace {

/// The iterable of positional arguments at depth n becomes an exact tuple; false with an error set.
bool make_tuple(Step& s, PyObject* function, int n) {
  PyObject* args = s.frame.item(n);
  if (PyTuple_CheckExact(args)) return true;
  PyObject* tuple = nullptr;
  if (Py_TYPE(args)->tp_iter || PySequence_Check(args))
    tuple = PySequence_Tuple(args);
  else if (auto shown = Owned<>::steal(_PyObject_FunctionStr(function)))
    PyErr_Format(PyExc_TypeError, "%U argument after * must be an iterable, not %.200s", shown.get(),
                 Py_TYPE(args)->tp_name);
  if (tuple) s.frame.set_item(n, tuple);
  return tuple != nullptr;
}

/// The mapping of keyword arguments on top becomes an exact dict; false with an error set.
bool make_dict(Step& s, PyObject* function) {
  if (PyDict_CheckExact(s.frame.item())) return true;
  auto dict = Owned<>::steal(PyDict_New());
  if (!dict || !merge_keywords(s, dict.get(), s.frame.item(), function)) return false;
  s.frame.set_item(1, dict.release());
  return true;
}

/// Calls the hook with tuple and dict laid out for vectorcall. For keys that are no str CPython raises.
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
  const int above = s.arg & 1;  // keywords, or NULL
  PyObject* function = s.frame.item(above + (kStack.null_above ? 3 : 2));
  const bool has_keywords = above && s.frame.item_kind() != SlotKind::Empty;
  if (has_keywords && !make_dict(s, function)) return Outcome::Raised;
  if (!make_tuple(s, function, 1 + above)) return Outcome::Raised;
  PyObject *args = s.frame.item(1 + above), *keywords = has_keywords ? s.frame.item() : nullptr;
  PyObject* result =
      is_hooked(s, function) ? call_hook_flat(s, function, args, keywords) : PyObject_Call(function, args, keywords);
  return finish_call(s, 3 + above, result);
}

}  // namespace gramme::cpython
