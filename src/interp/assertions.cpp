// Decides whether a conditional jump is an assertion on data, and adds the check to the graph.
#include "interp/assertions.h"

#include "base/imported.h"
#include "base/once.h"
#include "bytecode/idioms.h"

namespace gramme::interp {

namespace {

/// The message of `assert condition, "text"`; PyTorch's default if it is no constant text.
Value* text_of(trace::Trace& trace, const Frame& frame, const bytecode::Assertion& assertion) {
  PyObject* text = assertion.text >= 0 ? frame.constant(assertion.text) : nullptr;
  if (text && PyUnicode_CheckExact(text)) return trace.constant(text);
  return trace.constant(take(PyUnicode_FromString("assertion error")));
}

/// Asserts a number's truth in the graph. False if it is decided already, if guards can decide it, or if a graph cannot
/// check it.
bool assert_number(trace::Trace& trace, value::Number* number, bool holds) {
  if (number->type == &PyFloat_Type) return false;
  const bool is_bool = number->type == &PyBool_Type;
  if (!number->expr) {
    PyObject* const invert = once([] { return imported("torch", "sym_not").release(); });
    if (!is_bool || !trace.scope().is_data(number) || !trace.scope().may_assert()) return false;
    if (!holds) number = trace.scope().emit_number(invert, {number}, &PyBool_Type, {}, share(Py_True));
    return trace.scope().assert_true(number);
  }
  const shape::Expr e = is_bool ? number->expr : not_equal(number->expr, shape::constant(0));
  shape::Assumptions& known = trace.shapes.assumptions;
  if (!e || !known.is_unbacked(e) || known.decide(e) || !trace.scope().may_assert()) return false;
  trace.scope().assert_true(holds ? e : shape::negation(e));
  return true;
}

}  // namespace

std::optional<bool> asserted_truth(trace::Trace& trace, const Frame& frame, Value* operand) {
  operand = trace.see(operand);
  auto* tensor = value::as<value::Tensor>(operand);
  auto* number = value::as<value::Number>(operand);
  if (!tensor && !(number && !trace.contract.breaks)) return std::nullopt;
  const std::optional<bytecode::Assertion> assertion = bytecode::assertion_at(*frame.code, *frame.current);
  if (!assertion) return std::nullopt;
  const bool holds = assertion->holds;
  if (number) return assert_number(trace, number, holds) ? std::optional(holds) : std::nullopt;
  Value* text = text_of(trace, frame, *assertion);
  return trace.scope().assert_true(tensor, holds, text) ? std::optional(holds) : std::nullopt;
}

}  // namespace gramme::interp
