#include "interp/assertions.h"

#include "base/imported.h"
#include "base/once.h"

namespace gramme::interp {

namespace {

using bytecode::Instruction;
using bytecode::Op;

/// The raise that the instructions from here come to, whatever happens; null if they may go elsewhere.
const Instruction* certain_raise(const Instruction* from) {
  while (from->op != Op::RAISE_VARARGS) {
    if (from->op == Op::YIELD_VALUE || (bytecode::properties(from->op) & (bytecode::kJump | bytecode::kEndsBlock)))
      return nullptr;
    ++from;
  }
  return from;
}

/// The text of `assert condition, "text"`, as PyTorch's front end has it.
Value* text_of(trace::Trace& trace, const Frame& frame, const Instruction* from, const Instruction* raise) {
  const bool told = from->op == Op::LOAD_ASSERTION_ERROR && raise - from == 4 && from[1].op == Op::LOAD_CONST;
  PyObject* text = told ? frame.constant(from[1].arg) : nullptr;
  if (text && PyUnicode_CheckExact(text)) return trace.constant(text);
  return trace.constant(take(PyUnicode_FromString("assertion error")));
}

/// False where it is decided already, or guards can decide it, or a graph cannot check it.
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
  const bool jumps_if = frame.current->op == Op::POP_JUMP_FORWARD_IF_TRUE;
  if (!jumps_if && frame.current->op != Op::POP_JUMP_FORWARD_IF_FALSE) return std::nullopt;  // a loop would not end
  const auto& instructions = frame.code->instructions();
  const Instruction* next = &instructions[static_cast<size_t>(frame.code->index_of(frame.current->next))];
  const Instruction* target = &instructions[static_cast<size_t>(frame.code->index_of(frame.current->target))];
  const Instruction* raised_next = certain_raise(next);
  const Instruction* raised_target = certain_raise(target);
  if (!raised_next == !raised_target) return std::nullopt;
  const bool holds = raised_next ? jumps_if : !jumps_if;
  if (number) return assert_number(trace, number, holds) ? std::optional(holds) : std::nullopt;
  Value* text = raised_next ? text_of(trace, frame, next, raised_next) : text_of(trace, frame, target, raised_target);
  return trace.scope().assert_true(tensor, holds, text) ? std::optional(holds) : std::nullopt;
}

}  // namespace gramme::interp
