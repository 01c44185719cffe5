// Jumps, iteration and return.
#include "cpython/v311/steps.h"

namespace gramme::cpython {
namespace {

/// A backward jump checks for signals with the jump still current, but the handler of an exception they raise is looked
/// up in front of the jump's target.
Outcome jump_back(Step& s) {
  s.next -= s.arg;
  if (check_pending(s)) return Outcome::Next;
  s.result.raised_at = s.next - 1;
  return Outcome::Raised;
}

Outcome jump_ahead(Step& s) {
  s.next += s.arg;
  return Outcome::Next;
}

/// `jump` if the popped item's truth is `wanted`.
Outcome pop_jump_if(Step& s, bool wanted, Outcome (*jump)(Step&)) {
  int truth = PyObject_IsTrue(s.frame.item());
  if (truth < 0) return Outcome::Raised;
  s.frame.drop(1);
  return (truth != 0) == wanted ? jump(s) : Outcome::Next;
}

Outcome pop_jump_if_none(Step& s, bool wanted, Outcome (*jump)(Step&)) {
  bool none = s.frame.item() == Py_None;
  s.frame.drop(1);
  return none == wanted ? jump(s) : Outcome::Next;
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

Outcome jump_backward_no_interrupt(Step& s) {
  s.next -= s.arg;
  return Outcome::Next;
}

Outcome pop_jump_forward_if_true(Step& s) { return pop_jump_if(s, true, jump_ahead); }
Outcome pop_jump_forward_if_false(Step& s) { return pop_jump_if(s, false, jump_ahead); }
Outcome pop_jump_forward_if_none(Step& s) { return pop_jump_if_none(s, true, jump_ahead); }
Outcome pop_jump_forward_if_not_none(Step& s) { return pop_jump_if_none(s, false, jump_ahead); }
Outcome pop_jump_backward_if_true(Step& s) { return pop_jump_if(s, true, jump_back); }
Outcome pop_jump_backward_if_false(Step& s) { return pop_jump_if(s, false, jump_back); }
Outcome pop_jump_backward_if_none(Step& s) { return pop_jump_if_none(s, true, jump_back); }
Outcome pop_jump_backward_if_not_none(Step& s) { return pop_jump_if_none(s, false, jump_back); }
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

}  // namespace gramme::cpython
