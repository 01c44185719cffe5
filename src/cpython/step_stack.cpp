// Instructions for the value stack, local variables and cells.
#include <utility>

#include "cpython/steps.h"

namespace gramme::cpython {

Outcome nop(Step&) { return Outcome::Next; }

Outcome resume(Step& s) { return s.arg >= 2 || check_pending(s) ? Outcome::Next : Outcome::Raised; }

Outcome make_cell(Step& s) {
  PyObject* cell = PyCell_New(s.frame.local(s.arg));
  if (!cell) return Outcome::Raised;
  s.frame.set_local(s.arg, cell);
  return Outcome::Next;
}

Outcome copy_free_vars(Step& s) {
  PyObject* closure = s.frame.function()->func_closure;
  int first = s.frame.local_count() - s.arg;
  for (int i = 0; i < s.arg; ++i) s.frame.set_local(first + i, Py_NewRef(PyTuple_GET_ITEM(closure, i)));
  return Outcome::Next;
}

Outcome pop_top(Step& s) {
  s.frame.drop(1);
  return Outcome::Next;
}

Outcome push_null(Step& s) {
  s.frame.push(nullptr);
  return Outcome::Next;
}

Outcome copy(Step& s) {
  s.frame.copy(s.arg);
  return Outcome::Next;
}

Outcome swap(Step& s) {
  s.frame.swap(s.arg);
  return Outcome::Next;
}

Outcome load_const(Step& s) { return s.push(Py_NewRef(s.constant(s.arg))); }

Outcome load_small_int(Step& s) { return s.push(PyLong_FromLong(s.arg)); }

Outcome load_common_constant(Step& s) { return s.push(Py_NewRef(common_constant(s.arg))); }

Outcome load_assertion_error(Step& s) { return s.push(Py_NewRef(PyExc_AssertionError)); }

Outcome load_fast(Step& s) {
  PyObject* value = s.frame.local(s.arg);
  if (!value) set_name_error(PyExc_UnboundLocalError, kUnboundLocal, s.local_name(s.arg));
#if GRAMME_PYTHON_TAGGED_SLOTS
  if (value && lends(s.decoded.raw)) {
    s.frame.push_lent(s.arg);
    return Outcome::Next;
  }
#endif
  return s.push(Py_XNewRef(value));
}

Outcome store_fast(Step& s) {
  s.frame.set_local(s.arg, s.frame.pop());
  return Outcome::Next;
}

Outcome delete_fast(Step& s) {
  if (!s.frame.local(s.arg)) {
    set_name_error(PyExc_UnboundLocalError, kUnboundLocal, s.local_name(s.arg));
    return Outcome::Raised;
  }
  s.frame.set_local(s.arg, nullptr);
  return Outcome::Next;
}

Outcome load_fast_and_clear(Step& s) {
  s.frame.push(s.frame.exchange_local(s.arg, nullptr));
  return Outcome::Next;
}

namespace {
PyObject* cell_contents(Step& s) { return PyCell_GET(s.frame.local(s.arg)); }

void set_cell_contents(Step& s, PyObject* owned) {
  PyObject* cell = s.frame.local(s.arg);
  PyObject* old = PyCell_GET(cell);
  PyCell_SET(cell, owned);
  Py_XDECREF(old);
}
}  // namespace

Outcome load_deref(Step& s) {
  PyObject* value = cell_contents(s);
  if (!value) set_unbound_error(s, s.arg);
  return s.push(Py_XNewRef(value));
}

Outcome store_deref(Step& s) {
  set_cell_contents(s, s.frame.pop());
  return Outcome::Next;
}

Outcome delete_deref(Step& s) {
  if (!cell_contents(s)) {
    set_unbound_error(s, s.arg);
    return Outcome::Raised;
  }
  set_cell_contents(s, nullptr);
  return Outcome::Next;
}

Outcome load_from_dict_or_deref(Step& s) {
  Owned<> value = Owned<>::steal(get_item_if_any(s.frame.item(), s.local_name(s.arg)));
  if (!value && PyErr_Occurred()) return Outcome::Raised;
  if (!value) value = share(cell_contents(s));
  if (!value) set_unbound_error(s, s.arg);
  return s.replace(1, value.release());
}

Outcome load_classderef(Step& s) {
  PyObject* value = get_item_if_any(s.frame.namespace_object(), s.local_name(s.arg));
  if (value) return s.push(value);
  return PyErr_Occurred() ? Outcome::Raised : load_deref(s);
}

}  // namespace gramme::cpython
