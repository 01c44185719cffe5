#include "shape/program.h"

#include "shape/lower.h"

namespace gramme::shape {
namespace {

Operation required(Kind comparison) {
  switch (comparison) {
    case Kind::AtMost:
      return Operation::RequireAtMost;
    case Kind::AtLeast:
      return Operation::RequireAtLeast;
    case Kind::Equal:
      return Operation::RequireEqual;
    default:
      return Operation::RequireNotEqual;
  }
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

[[gnu::hot]] bool Program::run(int64_t* registers, size_t from, size_t to) const {
  for (const Instruction *at = code_.data() + from, *end = code_.data() + to; at != end; ++at)
    if (!apply(at->operation, registers[at->a], registers[at->b], registers[at->target])) [[unlikely]]
      return false;
  return true;
}

std::vector<int64_t> Program::registers() const {
  std::vector<int64_t> words(count_);
  for (const auto& [r, value] : constants_) words[r] = value;
  return words;
}

const Register* Program::known(Expr e) const {
  const auto found = known_.find(e);
  return found == known_.end() ? nullptr : &found->second;
}

Register Program::leaf(Expr e) {
  if (const Register* known = this->known(e)) return *known;
  const Register r = keep(e, new_register(false));
  if (is_constant(e)) constants_.emplace_back(r, e->constant);
  return r;
}

Register Program::compute(Operation operation, Register a, Register b) {
  const Register target = new_register(true);
  code_.push_back({operation, target, a, b});
  return target;
}

Register Program::new_register(bool computed) {
  computed_.push_back(computed);
  return count_++;
}

}  // namespace gramme::shape
