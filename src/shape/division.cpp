// Floor division and remainder.
#include <numeric>

#include "shape/nodes.h"

namespace gramme::shape {
namespace {

/// A sum being divided: quotient * divisor + rest. The divisor's first coefficient is positive.
struct Division {
  Linear quotient, rest;
  Factors divisor;

  bool by_constant() const { return divisor.factors.empty(); }
};

/// `e` divided by the factors; null unless it has them all.
Expr without(Expr e, const Operands& factors) {
  Factors left(e);
  left.gather();
  for (const Operand& factor : factors) {
    auto found =
        std::find_if(left.factors.begin(), left.factors.end(), [&](const Operand& own) { return own.of == factor.of; });
    if (found == left.factors.end() || found->times < factor.times) return nullptr;
    found->times -= factor.times;
  }
  return left.made();
}

bool are_same(const Operands& a, const Operands& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Operand& x, const Operand& y) { return x.of == y.of && x.times == y.times; });
}

/// Moves the terms that the divisor divides into the quotient.
Division division(Expr a, Expr b) {
  Division result{{}, {}, Factors(b)};
  result.divisor.gather();
  const int64_t coefficient = result.divisor.coefficient;
  const Linear top(a);
  for (const Operand& term : top.terms) {
    const Expr left = term.times % coefficient == 0 ? without(term.of, result.divisor.factors) : nullptr;
    left ? result.quotient.add(left, term.times / coefficient) : result.rest.add(term.of, term.times);
  }
  if (result.by_constant()) {
    const auto [quotient, rest] = floor_division(top.constant, coefficient);
    result.quotient.add(quotient);
    result.rest.add(rest);
  } else {
    result.rest.add(top.constant);
  }
  result.rest.gather();
  return result;
}

/// The number k if the rest is k * the divisor's factors; else zero.
int64_t multiple_of_factors(Division& division) {
  Factors rest(division.rest.made());
  rest.gather();
  return are_same(rest.factors, division.divisor.factors) ? rest.coefficient : 0;
}

/// Divides rest and divisor by their greatest common number, and returns it.
int64_t reduce(Division& division) {
  const int64_t common = std::gcd(division.divisor.coefficient, division.rest.content(!division.by_constant()));
  division.rest.divide(common);
  division.divisor.coefficient /= common;
  return common;
}

/// Divides rest and divisor by their common factors if the rest is a single term, and returns those.
Expr cancel(Division& division) {
  Factors all;
  if (division.rest.terms.size() != 1 || division.rest.constant != 0) return all.made();
  Factors term(division.rest.terms[0].of);
  for (Operand& factor : division.divisor.factors) {
    for (Operand& own : term.factors) {
      if (own.of != factor.of) continue;
      const int64_t common = std::min(own.times, factor.times);
      own.times -= common;
      factor.times -= common;
      if (common > 0) all.factors.push_back({own.of, common});
    }
  }
  const int64_t times = division.rest.terms[0].times;
  division.rest = Linear();
  division.rest.add(term.made(), times);
  return all.made();
}

Expr binary(Kind kind, Expr a, Expr b) {
  const Operand operands[] = {{a}, {b}};
  return a && b ? intern(kind, Type::Int, 0, operands) : nullptr;
}

/// The node for a quotient that no rule above simplifies.
Expr divided(Expr a, Expr b) {
  if (a && b && is_constant(b) && a->kind == Kind::FloorDivide && is_constant(a->operands[1].of))
    if (Expr whole = multiply(a->operands[1].of, b)) return floor_divide(a->operands[0].of, whole);
  return binary(Kind::FloorDivide, a, b);
}

bool divides(Expr a, Expr b) {
  return a && b && a->type == Type::Int && b->type == Type::Int && !is_constant(b, 0) && Linear(a).fits &&
         Linear(b).fits;
}

}  // namespace

Expr floor_divide(Expr a, Expr b) {
  if (!divides(a, b)) return nullptr;
  if (Linear(b).is_negative()) return floor_divide(negate(a), negate(b));
  Division parts = division(a, b);
  if (parts.rest.is(0) || (parts.by_constant() && parts.rest.terms.empty())) return parts.quotient.made();
  if (!parts.by_constant()) {
    if (const int64_t times = multiple_of_factors(parts)) {
      parts.quotient.add(floor_division(times, parts.divisor.coefficient).first);
      return parts.quotient.made();
    }
  }
  reduce(parts);
  const bool cancelled = !is_constant(cancel(parts));
  const Expr rest = parts.rest.made(), divisor = parts.divisor.made();
  const Expr left = cancelled ? floor_divide(rest, divisor) : divided(rest, divisor);
  if (!left) return nullptr;
  parts.quotient.add(left);
  return parts.quotient.made();
}

Expr modulo(Expr a, Expr b) {
  if (!divides(a, b)) return nullptr;
  if (Linear(b).is_negative()) return negate(modulo(negate(a), negate(b)));
  Division parts = division(a, b);
  if (parts.rest.terms.empty() && (parts.by_constant() || parts.rest.constant == 0))
    return constant(parts.rest.constant);
  if (!parts.by_constant()) {
    if (const int64_t times = multiple_of_factors(parts)) {
      const int64_t left = floor_division(times, parts.divisor.coefficient).second;
      parts.divisor.coefficient = 1;
      return multiply(constant(left), parts.divisor.made());
    }
  }
  if (const Expr factors = cancel(parts); !is_constant(factors))
    return multiply(factors, modulo(parts.rest.made(), parts.divisor.made()));
  const int64_t constant_before = parts.rest.constant, common = reduce(parts);
  const Expr left = binary(Kind::Modulo, parts.rest.made(), parts.divisor.made());
  if (!left) return nullptr;
  Linear result;
  result.add(left, common);
  result.add(constant_before - parts.rest.constant * common);
  return result.made();
}

}  // namespace gramme::shape
