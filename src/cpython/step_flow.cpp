// Instructions for jumps, loops and returns.
#include "cpython/steps.h"

namespace gramme::cpython {
namespace {

/// Jumps backward and runs signal handlers. In versions that jump first, the handler of their exception is looked up
/// for the code unit before the target.
Outcome jump_back(Step& s) {
  s.next = s.decoded.target;
  if (check_pending(s)) return Outcome::Next;
  if (GRAMME_PYTHON_JUMPS_FIRST) s.result.raised_at = s.next - 1;
  return Outcome::Raised;
}

Outcome jump_ahead(Step& s) {
  s.next = s.decoded.target;
  return Outcome::Next;
}

Outcome jump_if(Step& s, bool condition) {
  if (!condition) return Outcome::Next;
  return s.decoded.target > s.decoded.at ? jump_ahead(s) : jump_back(s);
}

/// Jumps if the popped item's truth is `wanted`.
Outcome pop_jump_if(Step& s, bool wanted) {
  int truth = PyObject_IsTrue(s.frame.item());
  if (truth < 0) return Outcome::Raised;
  s.frame.drop(1);
  return jump_if(s, (truth != 0) == wanted);
}

Outcome pop_jump_if_none(Step& s, bool wanted) {
  bool none = s.frame.item() == Py_None;
  s.frame.drop(1);
  return jump_if(s, none == wanted);
}

Outcome jump_if_or_pop(Step& s, bool wanted) {
  int truth = PyObject_IsTrue(s.frame.item());
  if (truth < 0) return Outcome::Raised;
  if ((truth != 0) == wanted) return jump_ahead(s);
  s.frame.drop(1);
  return Outcome::Next;
}

}  // namespace

Outcome jump_forward(Step& s) { return jump_ahead(s); }
Outcome jump_backward(Step& s) { return jump_back(s); }
Outcome jump_backward_no_interrupt(Step& s) { return jump_ahead(s); }

Outcome pop_jump_if_true(Step& s) { return pop_jump_if(s, true); }
Outcome pop_jump_if_false(Step& s) { return pop_jump_if(s, false); }
Outcome pop_jump_if_none(Step& s) { return pop_jump_if_none(s, true); }
Outcome pop_jump_if_not_none(Step& s) { return pop_jump_if_none(s, false); }
Outcome jump_if_true_or_pop(Step& s) { return jump_if_or_pop(s, true); }
Outcome jump_if_false_or_pop(Step& s) { return jump_if_or_pop(s, false); }

Outcome return_value(Step& s) {
  s.result.value = s.frame.pop();
  return Outcome::Returned;
}

Outcome get_iter(Step& s) { return s.replace(1, PyObject_GetIter(s.frame.item())); }

Outcome for_iter(Step& s) {
  PyObject* iterator = s.frame.item();
  if (PyObject* item = Py_TYPE(iterator)->tp_iternext(iterator)) return s.push(item);
  if (PyErr_Occurred()) {
    if (!PyErr_ExceptionMatches(PyExc_StopIteration)) return Outcome::Raised;
    PyErr_Clear();
  }
  s.frame.drop(1);
  return jump_ahead(s);
}

#if GRAMME_PYTHON_ITERATOR_PAIRS
Outcome get_iter_pair(Step& s) { return s.frame.get_iter(s.arg) ? Outcome::Next : Outcome::Raised; }

Outcome for_iter_pair(Step& s) {
  const int pushed = s.frame.push_next(s.thread);
  if (pushed != 0) return pushed > 0 ? Outcome::Next : Outcome::Raised;
  s.frame.drop(2);
  return jump_ahead(s);
}
#else
Outcome get_iter_pair(Step&) { return Outcome::HandOver; }
Outcome for_iter_pair(Step&) { return Outcome::HandOver; }
#endif

Outcome pop_iter_pair(Step& s) { return s.dropped(2, 0); }

}  // namespace gramme::cpython
