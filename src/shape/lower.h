// The order in which an expression is computed, shared by the flat program, hints and values in Python, so that all
// have a value for the same symbols.
#pragma once
#include "shape/nodes.h"

namespace gramme::shape {

/// Machine has a type Value, leaf(e) for constants and symbols, and compute(Operation, Value, Value). It memoizes:
/// known(e) points to the Value of an expression lowered before or is null, keep(e, Value) stores and returns one.
template <class Machine>
class Lowering {
 public:
  using Value = typename Machine::Value;
  explicit Lowering(Machine& machine) : machine_(machine) {}

  Value lower(Expr e) {
    if (const Value* known = machine_.known(e)) return *known;
    return machine_.keep(e, made(e));
  }

 private:
  Value made(Expr e) {
    if (e->kind == Kind::Constant || e->kind == Kind::Symbol) return machine_.leaf(e);
    if (e->kind == Kind::Sum) return sum(e);
    if (!compares_whole_numbers(e->kind)) return folded(e);
    const Sides sides = sides_of(e);
    const Value left = lower(sides.left), right = lower(sides.right);
    return machine_.compute(operation_of(e->kind), left, right);
  }

  static bool compares_whole_numbers(Kind kind) {
    return kind == Kind::AtMost || kind == Kind::AtLeast || kind == Kind::Equal || kind == Kind::NotEqual;
  }

  /// Combines the operands from the left; repeats a factor as often as its exponent says.
  Value folded(Expr e) {
    Value whole = lower(e->operands[0].of);
    const Operation operation = operation_of(e->kind);
    if (!takes_two(operation)) return machine_.compute(operation, whole, whole);
    for (size_t i = 0; i < e->operands.size(); ++i) {
      const Value operand = lower(e->operands[i].of);
      for (int64_t times = i == 0; times < e->operands[i].times; ++times)
        whole = machine_.compute(operation, whole, operand);
    }
    return whole;
  }

  Value number(int64_t value) { return lower(constant(value)); }

  Value multiple(Expr e, int64_t times) {
    const Value value = lower(e);
    return times == 1 ? value : machine_.compute(Operation::Multiply, value, number(times));
  }

  /// Starts with a positive term, if there is one, so that nothing has to be negated.
  Value sum(Expr e) {
    const Operand* first = nullptr;
    for (const Operand& term : e->operands)
      if (!first && term.times > 0) first = &term;
    const bool from_constant = !first && e->constant != 0;
    if (!first && !from_constant) first = &e->operands[0];
    Value whole = from_constant ? number(e->constant) : multiple(first->of, first->times);
    for (const Operand& term : e->operands) {
      if (&term == first) continue;
      const bool less = term.times < 0;
      whole = machine_.compute(less ? Operation::Subtract : Operation::Add, whole,
                               multiple(term.of, less ? -term.times : term.times));
    }
    if (e->constant != 0 && !from_constant) whole = machine_.compute(Operation::Add, whole, number(e->constant));
    return whole;
  }

  Machine& machine_;
};

}  // namespace gramme::shape
