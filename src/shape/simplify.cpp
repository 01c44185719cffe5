// Simplifies expressions under the assumptions of a capture.
#include <algorithm>

#include "shape/assumptions.h"
#include "shape/nodes.h"

namespace gramme::shape {

static bool contains(const Operands& operands, Expr e) {
  return std::any_of(operands.begin(), operands.end(), [e](const Operand& operand) { return operand.of == e; });
}

Expr Assumptions::simplified(Expr e) {
  if (const auto found = simplified_.find(e); found != simplified_.end()) return found->second;
  const Expr simple = simpler(e);
  simplified_[e] = simple;
  return simple;
}

/// A node that cannot be rebuilt stays as it is.
Expr Assumptions::simpler(Expr e) {
  if (e->kind == Kind::Symbol) {
    const auto number = static_cast<size_t>(e->constant);
    if (number < replaced_.size() && replaced_[number]) return replaced_[number];
  }
  const Expr made = rebuilt(e, [this](Expr operand) { return simplified(operand); });
  if (!made) return e;
  if (made->type == Type::Bool) {
    const std::optional<bool> known = decided(made);
    return known ? truth(*known) : simpler_comparison(made);
  }
  if (made->type != Type::Int || is_constant(made)) return made;
  if (const Range known = range(made); known.is_point()) return constant(known.low);
  switch (made->kind) {
    case Kind::Minimum:
    case Kind::Maximum:
      return simpler_extremum(made);
    case Kind::Sum:
      return simpler_sum(made);
    case Kind::Modulo: {
      const Range rest = range(made->operands[0].of), divisor = range(made->operands[1].of);
      return divisor.low >= 1 && rest.low >= 0 && rest.high < divisor.low ? made->operands[0].of : made;
    }
    case GRAMME_SHAPE_LEAVES:
    case Kind::Product:
    case Kind::FloorDivide:
    case GRAMME_SHAPE_ROUNDINGS:
    case GRAMME_SHAPE_FLOATS:
    case GRAMME_SHAPE_INT_COMPARISONS:
    case GRAMME_SHAPE_FLOAT_COMPARISONS:
    case GRAMME_SHAPE_CONNECTIVES:
      break;
  }
  return made;
}

/// Turns a*b == a*c into b == c if a is positive.
Expr Assumptions::simpler_comparison(Expr e) {
  if (!sides_of(e).left || e->constant != 0) return e;
  const Linear sum(e->operands[0].of);
  Operands common;
  for (const Operand& factor : Factors(sum.terms[0].of).factors)
    if (range(factor.of).low >= 1) common.push_back({factor.of, 1});
  Linear left;
  for (const Operand& term : sum.terms) {
    Factors of(term.of);
    common.erase(std::remove_if(common.begin(), common.end(),
                                [&](const Operand& factor) { return !contains(of.factors, factor.of); }),
                 common.end());
  }
  if (common.empty()) return e;
  for (const Operand& term : sum.terms) {
    Factors of(term.of);
    for (Operand& factor : of.factors) factor.times -= contains(common, factor.of);
    const Expr made = of.made();
    if (!made) return e;
    left.add(made, term.times);
  }
  const Expr operand = left.made();
  const Expr made = operand ? normalised(e, {{operand}}) : nullptr;
  return made ? simplified(made) : e;
}

/// Drops operands that another one always beats.
Expr Assumptions::simpler_extremum(Expr e) {
  const bool greatest = e->kind == Kind::Maximum;
  Operands kept;
  auto is_beaten = [&](Expr x, Expr by) {
    const Expr lead = greatest ? subtract(by, x) : subtract(x, by);
    return lead && range(lead).low >= 0;
  };
  for (const Operand& operand : e->operands) {
    const bool beaten =
        std::any_of(kept.begin(), kept.end(), [&](auto& other) { return is_beaten(operand.of, other.of); });
    if (beaten) continue;
    kept.erase(std::remove_if(kept.begin(), kept.end(), [&](auto& other) { return is_beaten(other.of, operand.of); }),
               kept.end());
    kept.push_back(operand);
  }
  return kept.size() == e->operands.size() ? e : normalised(e, kept);
}

/// Turns d * (x // d) into x if the remainder is always zero.
Expr Assumptions::simpler_sum(Expr e) {
  Linear sum;
  sum.add(e->constant);
  bool changed = false;
  for (const Operand& term : e->operands) {
    if (term.of->kind == Kind::FloorDivide && is_constant(term.of->operands[1].of)) {
      const Expr dividend = term.of->operands[0].of, divisor = term.of->operands[1].of;
      const Expr rest = modulo(dividend, divisor);
      if (rest && term.times % divisor->constant == 0 && range(rest) == Range{0, 0}) {
        sum.add(dividend, term.times / divisor->constant);
        changed = true;
        continue;
      }
    }
    sum.add(term.of, term.times);
  }
  const Expr made = changed ? sum.made() : e;
  return made ? made : e;
}

}  // namespace gramme::shape
