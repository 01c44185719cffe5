// Lowers expressions to instructions, and runs them.
#include "shape/program.h"

#include "shape/lower.h"

namespace gramme::shape {
namespace {

Operation required(Kind comparison) {
  if (comparison == Kind::AtMost) return Operation::RequireAtMost;
  if (comparison == Kind::AtLeast) return Operation::RequireAtLeast;
  return comparison == Kind::Equal ? Operation::RequireEqual : Operation::RequireNotEqual;
}

}  // namespace

Register Program::add(Expr e) { return Lowering(*this).lower(e); }

void Program::require(Expr e) {
  if (e->kind == Kind::And) {
    for (const Operand& part : e->operands) require(part.of);
  } else if (const Sides sides = sides_of(e); sides.left) {
    const Register left = add(sides.left), right = add(sides.right);
    code_.push_back({required(e->kind), left, left, right});
  } else if (!is_constant(e, true)) {
    const Register value = add(e);
    code_.push_back({Operation::Require, value, value, value});
  }
}

Register Program::require_value(Expr e) {
  const Register value = add(e), found = new_register();
  code_.push_back({Operation::RequireEqual, found, found, value});
  return found;
}

std::vector<int64_t> Program::registers() const {
  std::vector<int64_t> words(register_count());
  for (Register r = 0; r < words.size(); ++r)
    if (expressions_[r] && is_constant(expressions_[r])) words[r] = expressions_[r]->constant;
  return words;
}

const Register* Program::known(Expr e) const {
  const auto found = known_.find(e);
  return found == known_.end() ? nullptr : &found->second;
}

Register Program::keep(Expr e, Register r) {
  expressions_[r] = e;
  return known_[e] = r;
}

Register Program::leaf(Expr) { return new_register(); }

Register Program::compute(Operation operation, Register a, Register b) {
  code_.push_back({operation, new_register(), a, b});
  return code_.back().target;
}

Register Program::new_register() {
  expressions_.push_back(nullptr);
  return static_cast<Register>(expressions_.size()) - 1;
}

[[gnu::hot]] bool run(std::span<const Instruction> code, int64_t* registers) {
  for (const Instruction& at : code)
    if (!apply(at.operation, registers[at.a], registers[at.b], registers[at.target])) [[unlikely]]
      return false;
  return true;
}

}  // namespace gramme::shape
