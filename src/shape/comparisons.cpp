// Comparisons, `and`, `or`, `not`, minimum and maximum.
//
// A comparison of Ints is stored as one expression compared with a constant. The expression has no constant term and a
// positive first coefficient: 2*a < 2*b + 5 and b - a >= -2 both become a - b <= 2. So facts about an expression form
// an interval.
#include "shape/nodes.h"

namespace gramme::shape {
namespace {

/// The node of `operand == constant` and the like.
Expr relation(Kind kind, Expr operand, int64_t constant) {
  const Operand operands[] = {{operand}};
  return operand && constant != std::numeric_limits<int64_t>::min() ? intern(kind, Type::Bool, constant, operands)
                                                                    : nullptr;
}

/// Turns x // c <= k and x // c >= k into comparisons of x.
Expr bound(Kind kind, Expr operand, int64_t constant) {
  if (operand && operand->kind == Kind::FloorDivide && is_constant(operand->operands[1].of)) {
    const int64_t divisor = operand->operands[1].of->constant;
    int64_t limit;
    const bool fits = !__builtin_mul_overflow(constant, divisor, &limit) &&
                      (kind == Kind::AtLeast || !__builtin_add_overflow(limit, divisor - 1, &limit));
    const Expr whole = operand->operands[0].of;
    if (fits)
      return kind == Kind::AtLeast ? at_least(whole, shape::constant(limit)) : at_most(whole, shape::constant(limit));
  }
  return relation(kind, operand, constant);
}

bool holds(Kind kind, int64_t value) {
  if (kind == Kind::AtMost) return value <= 0;
  return kind == Kind::Equal ? value == 0 : value != 0;
}

bool has_product_of_sums(const Linear& linear) {
  for (const Operand& term : linear.terms)
    if (term.of->kind == Kind::Product)
      for (const Operand& factor : term.of->operands)
        if (factor.of->kind == Kind::Sum) return true;
  return false;
}

/// a - b <= 0, == 0 or != 0.
Expr comparison(Kind kind, Expr a, Expr b) {
  Linear difference(a);
  difference.add(b, -1);
  difference.gather();
  if (!difference.fits) return nullptr;
  if (difference.terms.empty()) return truth(holds(kind, difference.constant));
  if (has_product_of_sums(difference)) {
    const Expr whole = difference.made();
    const Linear out = whole ? expanded(whole) : Linear();
    if (whole && out.fits && out.terms.empty()) return truth(holds(kind, out.constant));
  }
  const int64_t content = difference.content(false) * (difference.is_negative() ? -1 : 1);
  const auto [limit, rest] = floor_division(-difference.constant, content);
  if (kind != Kind::AtMost && rest != 0) return truth(kind == Kind::NotEqual);
  difference.constant = 0;
  difference.divide(content);
  const Expr operand = difference.made();
  if (kind != Kind::AtMost) return relation(kind, operand, limit);
  return content > 0 ? bound(Kind::AtMost, operand, limit) : bound(Kind::AtLeast, operand, limit + (rest != 0));
}

Expr compared(Kind of_ints, Kind of_floats, Expr a, Expr b) {
  if (!a || !b) return nullptr;
  if (a->type == Type::Int && b->type == Type::Int) return comparison(of_ints, a, b);
  return float_operation(of_floats, lifted(a), lifted(b));
}

void sort(Operands& operands) {
  std::sort(operands.begin(), operands.end(),
            [](const Operand& x, const Operand& y) { return compare(x.of, y.of) < 0; });
}

/// The operands of both, where a node of `kind` counts as its operands; sorted, without duplicates.
Operands joined(Kind kind, Expr a, Expr b) {
  Operands operands;
  for (Expr e : {a, b}) {
    if (e->kind == kind)
      operands.append(e->operands);
    else
      operands.push_back({e});
  }
  sort(operands);
  auto same = [](const Operand& x, const Operand& y) { return x.of == y.of; };
  operands.erase(std::unique(operands.begin(), operands.end(), same), operands.end());
  return operands;
}

/// The minimum or maximum; of operands that differ by a constant one is left.
Expr extremum(Kind kind, Expr a, Expr b) {
  if (!a || !b || a->type != Type::Int || b->type != Type::Int) return nullptr;
  Operands operands = joined(kind, a, b), kept;
  for (const Operand& operand : operands) {
    bool beaten = false;
    for (Operand& other : kept) {
      const Expr difference = subtract(operand.of, other.of);
      if (!difference || !is_constant(difference)) continue;
      if ((difference->constant > 0) == (kind == Kind::Maximum)) other = operand;
      beaten = true;
      break;
    }
    if (!beaten) kept.push_back(operand);
  }
  sort(kept);
  return kept.size() == 1 ? kept[0].of : intern(kind, Type::Int, 0, kept);
}

Expr logic(Kind kind, Expr a, Expr b) {
  if (!a || !b || a->type != Type::Bool || b->type != Type::Bool) return nullptr;
  const bool decides = kind == Kind::Or;
  Operands operands = joined(kind, a, b), kept;
  for (const Operand& operand : operands) {
    if (is_constant(operand.of, decides)) return truth(decides);
    const Expr opposite = negation(operand.of);
    for (const Operand& other : kept)
      if (other.of == opposite) return truth(decides);
    if (!is_constant(operand.of)) kept.push_back(operand);
  }
  if (kept.empty()) return truth(!decides);
  return kept.size() == 1 ? kept[0].of : intern(kind, Type::Bool, 0, kept);
}

/// The positive terms of a sum, and the negated others.
Sides split(Expr e) {
  Linear left, right;
  for (const Operand& term : Linear(e).terms)
    term.times > 0 ? left.add(term.of, term.times) : right.add(term.of, -term.times);
  return {left.made(), right.made()};
}

}  // namespace

Sides sides_of(Expr comparison) {
  if (comparison->type != Type::Bool || comparison->operands.size() != 1) return {};
  Sides sides = split(comparison->operands[0].of);
  sides.right = add(sides.right, constant(comparison->constant));
  if (!sides.left || !sides.right) sides = {comparison->operands[0].of, constant(comparison->constant)};
  return sides;
}

Expr equal(Expr a, Expr b) { return compared(Kind::Equal, Kind::FloatEqual, a, b); }
Expr not_equal(Expr a, Expr b) { return compared(Kind::NotEqual, Kind::FloatNotEqual, a, b); }
Expr at_most(Expr a, Expr b) { return compared(Kind::AtMost, Kind::FloatAtMost, a, b); }

Expr less(Expr a, Expr b) {
  if (!a || !b) return nullptr;
  if (a->type == Type::Int && b->type == Type::Int) return at_most(add(a, constant(1)), b);
  return float_operation(Kind::FloatLess, lifted(a), lifted(b));
}

Expr minimum(Expr a, Expr b) { return extremum(Kind::Minimum, a, b); }
Expr maximum(Expr a, Expr b) { return extremum(Kind::Maximum, a, b); }
Expr both(Expr a, Expr b) { return logic(Kind::And, a, b); }
Expr either(Expr a, Expr b) { return logic(Kind::Or, a, b); }

Expr negation(Expr a) {
  if (!a || a->type != Type::Bool) return nullptr;
  auto operand = [a](size_t i) { return a->operands[i].of; };
  int64_t beyond;
  switch (a->kind) {
    case Kind::Constant:
      return truth(!a->constant);
    case Kind::AtMost:
      return __builtin_add_overflow(a->constant, 1, &beyond) ? nullptr : bound(Kind::AtLeast, operand(0), beyond);
    case Kind::AtLeast:
      return __builtin_sub_overflow(a->constant, 1, &beyond) ? nullptr : bound(Kind::AtMost, operand(0), beyond);
    case Kind::Equal:
      return relation(Kind::NotEqual, operand(0), a->constant);
    case Kind::NotEqual:
      return relation(Kind::Equal, operand(0), a->constant);
    case Kind::FloatLess:
      return float_operation(Kind::FloatAtMost, operand(1), operand(0));
    case Kind::FloatAtMost:
      return float_operation(Kind::FloatLess, operand(1), operand(0));
    case Kind::FloatEqual:
      return float_operation(Kind::FloatNotEqual, operand(0), operand(1));
    case Kind::FloatNotEqual:
      return float_operation(Kind::FloatEqual, operand(0), operand(1));
    case Kind::And:
    case Kind::Or: {
      Expr whole = truth(a->kind == Kind::Or);
      for (const Operand& part : a->operands)
        whole = a->kind == Kind::Or ? both(whole, negation(part.of)) : either(whole, negation(part.of));
      return whole;
    }
    case Kind::Symbol:
    case GRAMME_SHAPE_INTS:
    case GRAMME_SHAPE_FLOATS:
      break;
  }
  return nullptr;
}

}  // namespace gramme::shape
