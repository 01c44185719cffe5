// Instructions that build and unpack tuples, lists, sets, dicts and strings.
#include "base/ref.h"
#include "cpython/internal.h"
#include "cpython/steps.h"

#if GRAMME_PYTHON_TEMPLATES
#define Py_BUILD_CORE 1
#include <internal/pycore_interpolation.h>
#include <internal/pycore_template.h>
#undef Py_BUILD_CORE
#endif

namespace gramme::cpython {
namespace {

/// Pops `count` items into `items`, as owned references.
void take_items(Step& s, int count, PyObject** items) {
  while (--count >= 0) items[count] = s.frame.pop();
}

}  // namespace

Outcome build_tuple(Step& s) {
  PyObject* tuple = PyTuple_New(s.arg);
  if (!tuple) return Outcome::Raised;
  take_items(s, s.arg, reinterpret_cast<PyTupleObject*>(tuple)->ob_item);
  return s.push(tuple);
}

Outcome build_list(Step& s) {
  PyObject* list = PyList_New(s.arg);
  if (!list) return Outcome::Raised;
  take_items(s, s.arg, reinterpret_cast<PyListObject*>(list)->ob_item);
  return s.push(list);
}

Outcome build_set(Step& s) {
  auto set = Owned<>::steal(PySet_New(nullptr));
  if (!set) return Outcome::Raised;
  for (int i = s.arg; i > 0; --i)
    if (PySet_Add(set.get(), s.frame.item(i)) < 0) return Outcome::Raised;
  return s.replace(s.arg, set.release());
}

Outcome build_map(Step& s) {
  auto dict = Owned<>::steal(PyDict_New());
  if (!dict) return Outcome::Raised;
  for (int i = s.arg; i > 0; --i)
    if (PyDict_SetItem(dict.get(), s.frame.item(2 * i), s.frame.item(2 * i - 1)) < 0) return Outcome::Raised;
  return s.replace(2 * s.arg, dict.release());
}

Outcome build_const_key_map(Step& s) {
  PyObject* keys = s.frame.item();
  if (!PyTuple_CheckExact(keys) || PyTuple_GET_SIZE(keys) != s.arg) {
    PyErr_SetString(PyExc_SystemError, "bad BUILD_CONST_KEY_MAP keys argument");
    return Outcome::Raised;
  }
  auto dict = Owned<>::steal(PyDict_New());
  if (!dict) return Outcome::Raised;
  for (int i = 0; i < s.arg; ++i)
    if (PyDict_SetItem(dict.get(), PyTuple_GET_ITEM(keys, i), s.frame.item(s.arg + 1 - i)) < 0) return Outcome::Raised;
  return s.replace(s.arg + 1, dict.release());
}

Outcome build_string(Step& s) {
  auto empty = Owned<>::steal(PyUnicode_New(0, 0));
  if (!empty) return Outcome::Raised;
  return s.replace(s.arg, _PyUnicode_JoinArray(empty.get(), OperandArray(s.frame, s.arg).get(), s.arg));
}

Outcome build_slice(Step& s) {
  PyObject* step = s.arg == 3 ? s.frame.item(1) : nullptr;
  return s.replace(s.arg, PySlice_New(s.frame.item(s.arg), s.frame.item(s.arg - 1), step));
}

namespace {
using Conversion = PyObject* (*)(PyObject*);
constexpr Conversion kConversions[] = {nullptr, PyObject_Str, PyObject_Repr, PyObject_ASCII};
}  // namespace

Outcome convert_value(Step& s) { return s.replace(1, kConversions[s.arg](s.frame.item())); }

#if GRAMME_PYTHON_TEMPLATES
Outcome build_interpolation(Step& s) {
  const int operands = 2 + (s.arg & 1);
  PyObject* spec = s.arg & 1 ? s.frame.item() : Py_GetConstantBorrowed(Py_CONSTANT_EMPTY_STR);
  return s.replace(operands,
                   _PyInterpolation_Build(s.frame.item(operands), s.frame.item(operands - 1), s.arg >> 2, spec));
}

Outcome build_template(Step& s) { return s.replace(2, _PyTemplate_Build(s.frame.item(2), s.frame.item(1))); }
#else
Outcome build_interpolation(Step&) { return Outcome::HandOver; }
Outcome build_template(Step&) { return Outcome::HandOver; }
#endif

Outcome format_value(Step& s) {
  const int operands = s.arg & 4 ? 2 : 1;
  PyObject* spec = s.arg & 4 ? s.frame.item() : nullptr;
  Owned<> value = share(s.frame.item(operands));
  if (Conversion convert = kConversions[s.arg & 3]) value = Owned<>::steal(convert(value.get()));
  if (!value) return Outcome::Raised;
  if (!spec && PyUnicode_CheckExact(value.get())) return s.replace(operands, value.release());
  return s.replace(operands, PyObject_Format(value.get(), spec));
}

Outcome list_append(Step& s) { return s.dropped(1, PyList_Append(s.frame.item(s.arg + 1), s.frame.item())); }

Outcome set_add(Step& s) { return s.dropped(1, PySet_Add(s.frame.item(s.arg + 1), s.frame.item())); }

Outcome map_add(Step& s) {
  return s.dropped(2, PyDict_SetItem(s.frame.item(s.arg + 2), s.frame.item(2), s.frame.item(1)));
}

Outcome list_extend(Step& s) {
  PyObject* iterable = s.frame.item();
  auto none = Owned<>::steal(_PyList_Extend(reinterpret_cast<PyListObject*>(s.frame.item(s.arg + 1)), iterable));
  if (none) return s.dropped(1, 0);
  if (PyErr_ExceptionMatches(PyExc_TypeError) && !Py_TYPE(iterable)->tp_iter && !PySequence_Check(iterable)) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "Value after * must be an iterable, not %.200s", Py_TYPE(iterable)->tp_name);
  }
  return Outcome::Raised;
}

Outcome set_update(Step& s) { return s.dropped(1, _PySet_Update(s.frame.item(s.arg + 1), s.frame.item())); }

Outcome dict_update(Step& s) {
  PyObject* update = s.frame.item();
  if (PyDict_Update(s.frame.item(s.arg + 1), update) == 0) return s.dropped(1, 0);
  if (PyErr_ExceptionMatches(PyExc_AttributeError))
    PyErr_Format(PyExc_TypeError, "'%.200s' object is not a mapping", Py_TYPE(update)->tp_name);
  return Outcome::Raised;
}

#if GRAMME_PYTHON_LAZY_IMPORTS
bool merge_keywords(Step& s, PyObject* dict, PyObject* mapping, PyObject* function) {
  PyObject* twice = nullptr;
  if (_PyDict_MergeUniq(dict, mapping, &twice) == 0) return true;
  _PyEval_FormatKwargsError(s.thread, function, mapping, twice);
  Py_XDECREF(twice);
  return false;
}
#elif GRAMME_PYTHON_EXPORTED_HELPERS
bool merge_keywords(Step& s, PyObject* dict, PyObject* mapping, PyObject* function) {
  if (_PyDict_MergeEx(dict, mapping, 2) == 0) return true;
  _PyEval_FormatKwargsError(s.thread, function, mapping);
  return false;
}
#else
namespace {
void set_kwargs_error(PyObject* function, PyObject* kwargs) {
  if (PyErr_ExceptionMatches(PyExc_AttributeError)) {  // the mapping has no keys()
    PyErr_Clear();
    if (auto shown = Owned<>::steal(_PyObject_FunctionStr(function)))
      PyErr_Format(PyExc_TypeError, "%U argument after ** must be a mapping, not %.200s", shown.get(),
                   Py_TYPE(kwargs)->tp_name);
    return;
  }
  if (!PyErr_ExceptionMatches(PyExc_KeyError)) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  // For a duplicate key _PyDict_MergeEx sets a KeyError of a tuple of the key; from 3.12 on, the exception is made at
  // once.
#if GRAMME_PYTHON_RAISED_OBJECT
  PyObject* args = reinterpret_cast<PyBaseExceptionObject*>(value)->args;
#else
  PyObject* args = value;
#endif
  if (!args || !PyTuple_Check(args) || PyTuple_GET_SIZE(args) != 1) return PyErr_Restore(type, value, traceback);
  if (auto shown = Owned<>::steal(_PyObject_FunctionStr(function)))
    PyErr_Format(PyExc_TypeError, "%U got multiple values for keyword argument '%S'", shown.get(),
                 PyTuple_GET_ITEM(args, 0));
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
}
}  // namespace

bool merge_keywords(Step&, PyObject* dict, PyObject* mapping, PyObject* function) {
  if (_PyDict_MergeEx(dict, mapping, 2) == 0) return true;
  set_kwargs_error(function, mapping);
  return false;
}
#endif

/// DICT_MERGE: below the dict are the arguments, then the callable and NULL.
Outcome dict_merge(Step& s) {
  PyObject* function = s.frame.item(s.arg + (kStack.null_above ? 4 : 3));
  return s.dropped(1, merge_keywords(s, s.frame.item(s.arg + 1), s.frame.item(), function) ? 0 : -1);
}

Outcome list_to_tuple(Step& s) { return s.replace(1, PyList_AsTuple(s.frame.item())); }

namespace {

/// Replaces the iterable on top by its items.
Outcome unpack_top(Step& s, int before, int after) {
  auto iterable = Owned<>::steal(s.frame.pop());
  return s.frame.unpack(s.thread, iterable.get(), before, after) ? Outcome::Next : Outcome::Raised;
}

}  // namespace

Outcome unpack_sequence(Step& s) { return unpack_top(s, s.arg, -1); }

Outcome unpack_ex(Step& s) { return unpack_top(s, s.arg & 0xff, s.arg >> 8); }

}  // namespace gramme::cpython
