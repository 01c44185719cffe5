// Replaces symbols by expressions, and rebuilds an expression with other operands in normal form.
#include <unordered_map>

#include "shape/nodes.h"

namespace gramme::shape {
namespace {

class Substitution {
 public:
  explicit Substitution(std::span<const Expr> by_symbol) : by_symbol_(by_symbol) {
    for (size_t k = 0; k < by_symbol.size(); ++k)
      if (by_symbol[k]) symbols_ |= uint64_t{1} << std::min<size_t>(k, 63);
  }

  Expr operator()(Expr e) {
    if (!(e->symbols & symbols_)) return e;
    if (e->kind == Kind::Symbol) {
      const auto number = static_cast<size_t>(e->constant);
      return number < by_symbol_.size() && by_symbol_[number] ? by_symbol_[number] : e;
    }
    auto [found, is_new] = made_.emplace(e, nullptr);
    if (!is_new) return found->second;
    const Expr made = rebuilt(e, *this);
    return made_[e] = made;
  }

 private:
  std::span<const Expr> by_symbol_;
  uint64_t symbols_ = 0;
  std::unordered_map<Expr, Expr> made_;
};

Expr folded(const Operands& operands, Expr (*make)(Expr, Expr)) {
  Expr whole = operands[0].of;
  for (size_t i = 1; i < operands.size(); ++i) whole = make(whole, operands[i].of);
  return whole;
}

Expr sum(int64_t constant, const Operands& operands) {
  Linear result;
  result.add(constant);
  for (const Operand& operand : operands) {
    if (operand.of->type != Type::Int) return nullptr;
    result.add(operand.of, operand.times);
  }
  return result.made();
}

Expr product(const Operands& operands) {
  Factors result;
  for (const Operand& operand : operands) {
    if (operand.of->type != Type::Int) return nullptr;
    result.add(operand.of, operand.times);
  }
  return result.made();
}

}  // namespace

Expr normalised(Expr e, const Operands& operands) {
  const Expr a = operands.empty() ? nullptr : operands[0].of;
  const Expr b = operands.size() < 2 ? nullptr : operands[1].of;
  switch (e->kind) {
    case GRAMME_SHAPE_LEAVES:
      return e;
    case Kind::Product:
      return product(operands);
    case Kind::FloorDivide:
      return floor_divide(a, b);
    case Kind::Modulo:
      return modulo(a, b);
    case Kind::Minimum:
      return folded(operands, minimum);
    case Kind::Maximum:
      return folded(operands, maximum);
    case Kind::Truncate:
      return truncate(a);
    case Kind::Floor:
      return floor(a);
    case Kind::Ceil:
      return ceil(a);
    case Kind::Round:
      return round(a);
    case Kind::Sum:
      return sum(e->constant, operands);
    case Kind::ToFloat:
      return to_float(a);
    case Kind::FloatAdd:
    case Kind::FloatMultiply:
    case Kind::FloatDivide:
    case Kind::FloatPower:
    case Kind::SquareRoot:
    case GRAMME_SHAPE_FLOAT_COMPARISONS:
      return float_operation(e->kind, a, b);
    case Kind::AtMost:
      return at_most(a, constant(e->constant));
    case Kind::AtLeast:
      return at_least(a, constant(e->constant));
    case Kind::Equal:
      return equal(a, constant(e->constant));
    case Kind::NotEqual:
      return not_equal(a, constant(e->constant));
    case Kind::And:
      return folded(operands, both);
    case Kind::Or:
      return folded(operands, either);
  }
  return nullptr;
}

Expr substitute(Expr e, std::span<const Expr> by_symbol) { return e ? Substitution(by_symbol)(e) : nullptr; }

}  // namespace gramme::shape
