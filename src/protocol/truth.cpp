// Truth values, as tested by `if`, `not` and `while`.
#include "protocol/answers.h"
#include "protocol/number.h"
#include "protocol/special.h"
#include "value/traits.h"

namespace gramme::protocol {

using namespace value;

namespace {

Value* user_truth(Trace& trace, Value* operand, PyObject* name) {
  Value* method = own_method(trace, operand, name);
  if (!method) return nullptr;
  return known(trace, answer(trace, Answer::of_bool, method), Reason::DataDependentBranch);
}

/// Objects, and classes with a metaclass: __bool__, then __len__, then true.
bool object_truth(Trace& trace, Value* operand) {
  static PyObject* const bool_name = intern("__bool__");
  static PyObject* const len_name = intern("__len__");
  if (Value* result = user_truth(trace, operand, bool_name)) return result->object == Py_True;
  if (Value* payload = payload_for(trace, operand, bool_name)) return truth(trace, payload);
  if (own_method(trace, operand, len_name) || payload_for(trace, operand, len_name)) return length(trace, operand) != 0;
  return operand->kind != Kind::Tuple || !static_cast<Tuple*>(operand)->items.empty();
}

}  // namespace

bool truth(Trace& trace, Value* operand) {
  operand = trace.see(operand);
  if (has_own_class(operand)) return object_truth(trace, operand);
  if (auto* number = as<Number>(operand)) {
    if (const std::optional<bool> known = truth_of_expression(trace, number)) return *known;
    if (const std::optional<bool> known = truth_by_ranges(trace, number)) return *known;
    return check(PyObject_IsTrue(known_number(trace, number, Reason::DataDependentBranch))) == 1;
  }
  if (operand->kind == Kind::Constant) {
    int result = PyObject_IsTrue(operand->object);
    if (result < 0) raise_current(trace);
    return result == 1;
  }
  if (operand->kind == Kind::Tensor)
    cannot(Reason::DataDependentBranch, "an `if`, `while` or bool() on a tensor's value");
  if (operand->kind == Kind::Null) GRAMME_BUG("the truth of a stack slot without a value");
  bool sized = has(operand->kind, SIZED) && operand->kind != Kind::Namespace;  // globals are never empty
  return !sized || length(trace, operand) != 0;
}

}  // namespace gramme::protocol
