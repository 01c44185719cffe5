// Building and taking apart tuples, lists, sets, dicts and strings.
#include "base/ref.h"
#include "cpython/v311/internal.h"
#include "cpython/v311/steps.h"

namespace gramme::cpython {
namespace {

/// Pops the last `count` items into `items`, which take them over.
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
  return s.replace(s.arg, _PyUnicode_JoinArray(empty.get(), s.frame.operands(s.arg), s.arg));
}

Outcome build_slice(Step& s) {
  PyObject* step = s.arg == 3 ? s.frame.item(1) : nullptr;
  return s.replace(s.arg, PySlice_New(s.frame.item(s.arg), s.frame.item(s.arg - 1), step));
}

Outcome format_value(Step& s) {
  using Conversion = PyObject* (*)(PyObject*);
  constexpr Conversion kConversions[] = {nullptr, PyObject_Str, PyObject_Repr, PyObject_ASCII};
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

void set_kwargs_error(PyObject* function, PyObject* kwargs) {
  if (PyErr_ExceptionMatches(PyExc_AttributeError)) {  // it has no keys()
    PyErr_Clear();
    if (auto shown = Owned<>::steal(_PyObject_FunctionStr(function)))
      PyErr_Format(PyExc_TypeError, "%U argument after ** must be a mapping, not %.200s", shown.get(),
                   Py_TYPE(kwargs)->tp_name);
    return;
  }
  if (!PyErr_ExceptionMatches(PyExc_KeyError)) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  // A key that is there already: _PyDict_MergeEx sets a KeyError whose value is the tuple of the key.
  if (!value || !PyTuple_Check(value) || PyTuple_GET_SIZE(value) != 1) return PyErr_Restore(type, value, traceback);
  if (auto shown = Owned<>::steal(_PyObject_FunctionStr(function)))
    PyErr_Format(PyExc_TypeError, "%U got multiple values for keyword argument '%S'", shown.get(),
                 PyTuple_GET_ITEM(value, 0));
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
}

Outcome dict_merge(Step& s) {
  PyObject* update = s.frame.item();
  if (_PyDict_MergeEx(s.frame.item(s.arg + 1), update, 2) == 0) return s.dropped(1, 0);
  set_kwargs_error(s.frame.item(s.arg + 3), update);
  return Outcome::Raised;
}

Outcome list_to_tuple(Step& s) { return s.replace(1, PyList_AsTuple(s.frame.item())); }

namespace {

/// "not enough values" when the iterator ended after `got` items.
void set_too_few(int before, int after, Py_ssize_t got) {
  if (after < 0)
    PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected %d, got %zd)", before, got);
  else
    PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected at least %d, got %zd)", before + after, got);
}

/// Has the iterator ended, as an unpacking without a star asks?
bool ended(PyObject* iterator, int expected) {
  auto extra = Owned<>::steal(PyIter_Next(iterator));
  if (!extra) return !PyErr_Occurred();
  PyErr_Format(PyExc_ValueError, "too many values to unpack (expected %d)", expected);
  return false;
}

/// The rest of the iterator as a list without the last `after` items, which go on top of it.
bool unpack_rest(PyObject* iterator, int before, int after, PyObject** top) {
  auto rest = Owned<>::steal(PySequence_List(iterator));
  if (!rest) return false;
  Py_ssize_t length = PyList_GET_SIZE(rest.get());
  if (length < after) {
    set_too_few(before, after, before + length);
    return false;
  }
  for (int i = 0; i < after; ++i) top[-2 - i] = PyList_GET_ITEM(rest.get(), length - after + i);
  Py_SET_SIZE(rest.get(), length - after);  // those items belong to the stack now
  top[-1] = rest.release();
  return true;
}

/// The items of an iterable below `top`, the first one highest; after = -1: exactly `before` of them. False with an
/// error set: none is left there.
bool unpack(PyObject* iterable, int before, int after, PyObject** top) {
  auto iterator = Owned<>::steal(PyObject_GetIter(iterable));
  if (!iterator) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) && !Py_TYPE(iterable)->tp_iter && !PySequence_Check(iterable))
      PyErr_Format(PyExc_TypeError, "cannot unpack non-iterable %.200s object", Py_TYPE(iterable)->tp_name);
    return false;
  }
  int count = 0;
  for (; count < before; ++count) {
    PyObject* item = PyIter_Next(iterator.get());
    if (!item) break;
    top[-1 - count] = item;
  }
  if (count < before && !PyErr_Occurred()) set_too_few(before, after, count);
  if (count == before &&
      (after < 0 ? ended(iterator.get(), before) : unpack_rest(iterator.get(), before, after, top - before)))
    return true;
  while (count > 0) Py_DECREF(top[-1 - --count]);
  return false;
}

/// The iterable on top gives way to its items. They are collected above the stack's top, where nobody looks.
Outcome unpack_top(Step& s, int before, int after) {
  const int total = before + (after < 0 ? 0 : 1 + after);
  auto iterable = Owned<>::steal(s.frame.pop());
  PyObject** bottom = s.frame.operands(0);
  if (!unpack(iterable.get(), before, after, bottom + total)) return Outcome::Raised;
  for (int i = 0; i < total; ++i) s.frame.push(bottom[i]);
  return Outcome::Next;
}

}  // namespace

Outcome unpack_sequence(Step& s) { return unpack_top(s, s.arg, -1); }

Outcome unpack_ex(Step& s) { return unpack_top(s, s.arg & 0xff, s.arg >> 8); }

}  // namespace gramme::cpython
