// Sums and products in normal form.
#include <numeric>

#include "shape/nodes.h"

namespace gramme::shape {
namespace {

constexpr size_t kMostTerms = 32;  // in an expression that is multiplied out
constexpr int64_t kMostFactors = 64;

bool are(Type type, Expr a, Expr b) { return a->type == type && b->type == type; }

/// Adds a * b; false if the sum or its negative takes more than 64 bits.
bool accumulate(int64_t& sum, int64_t a, int64_t b) {
  int64_t product;
  return !__builtin_mul_overflow(a, b, &product) && !__builtin_add_overflow(sum, product, &sum) &&
         sum != std::numeric_limits<int64_t>::min();
}

/// Sorts the operands and joins equal ones.
bool join(Operands& operands) {
  std::sort(operands.begin(), operands.end(),
            [](const Operand& x, const Operand& y) { return compare(x.of, y.of) < 0; });
  size_t kept = 0;
  bool fits = true;
  for (const Operand& operand : Operands(operands)) {
    if (kept && operands[kept - 1].of == operand.of) {
      fits &= accumulate(operands[kept - 1].times, operand.times, 1);
      kept -= operands[kept - 1].times == 0;
    } else if (operand.times) {
      operands[kept++] = operand;
    }
  }
  operands.resize(kept);
  return fits;
}

Linear product(const Linear& a, const Linear& b) {
  Linear result;
  result.fits = a.fits && b.fits && a.terms.size() * b.terms.size() <= 4 * kMostTerms;
  if (!result.fits) return result;
  auto add = [&](Expr term, int64_t times, int64_t more) {
    if (!term || __builtin_mul_overflow(times, more, &times)) return void(result.fits = false);
    result.add(term, times);
  };
  result.add(a.constant, b.constant);
  for (const Operand& x : a.terms) add(x.of, x.times, b.constant);
  for (const Operand& y : b.terms) add(y.of, y.times, a.constant);
  for (const Operand& x : a.terms)
    for (const Operand& y : b.terms) add(multiply(x.of, y.of), x.times, y.times);
  result.gather();
  result.fits &= result.terms.size() <= kMostTerms;
  return result;
}

}  // namespace

void Linear::add(int64_t value, int64_t times) { fits &= accumulate(constant, value, times); }

void Linear::add(Expr e, int64_t times) {
  if (is_constant(e)) return add(e->constant, times);
  if (e->kind != Kind::Sum) return terms.push_back({e, times});
  add(e->constant, times);
  for (const Operand& term : e->operands) {
    int64_t product = 0;
    fits &= accumulate(product, term.times, times);
    terms.push_back({term.of, product});
  }
}

int64_t Linear::content(bool with_constant) const {
  int64_t divisor = with_constant ? std::abs(constant) : 0;
  for (const Operand& term : terms) divisor = std::gcd(divisor, term.times);
  return divisor;
}

void Linear::gather() { fits &= join(terms); }

void Linear::divide(int64_t by) {
  for (Operand& term : terms) term.times /= by;
  constant = floor_division(constant, by).first;
}

Expr Linear::made() {
  gather();
  if (!fits) return nullptr;
  if (terms.empty()) return shape::constant(constant);
  if (constant == 0 && terms.size() == 1 && terms[0].times == 1) return terms[0].of;
  return intern(Kind::Sum, Type::Int, constant, terms);
}

void Factors::add(int64_t value, int64_t exponent) {
  for (; exponent > 0 && value != 1 && fits; --exponent)
    fits =
        !__builtin_mul_overflow(coefficient, value, &coefficient) && coefficient != std::numeric_limits<int64_t>::min();
}

void Factors::add(Expr e, int64_t exponent) {
  if (is_constant(e)) return add(e->constant, exponent);
  if (e->kind == Kind::Product) {
    for (const Operand& factor : e->operands) add(factor.of, factor.times * exponent);
  } else if (e->kind == Kind::Sum) {
    Linear sum(e);
    const int64_t content = sum.content(true) * (sum.is_negative() ? -1 : 1);
    add(content, exponent);
    sum.divide(content);
    if (Expr primitive = sum.made(); primitive->kind != Kind::Sum)
      add(primitive, exponent);
    else
      factors.push_back({primitive, exponent});
  } else {
    factors.push_back({e, exponent});
  }
}

void Factors::gather() {
  fits &= join(factors);
  for (const Operand& factor : factors) fits &= factor.times <= kMostFactors;
}

Expr Factors::made() {
  gather();
  if (!fits) return nullptr;
  if (coefficient == 0 || factors.empty()) return constant(coefficient);
  const bool single = factors.size() == 1 && factors[0].times == 1;
  const Expr product = single ? factors[0].of : intern(Kind::Product, Type::Int, 0, factors);
  if (!product) return nullptr;
  Linear result;
  result.add(product, coefficient);
  return result.made();
}

Linear expanded(Expr e) {
  if (e->kind == Kind::Product) {
    Linear result(constant(1));
    for (const Operand& factor : e->operands)
      for (int64_t i = 0; i < factor.times && result.fits; ++i) result = product(result, expanded(factor.of));
    return result;
  }
  if (e->kind != Kind::Sum) return Linear(e);
  Linear result;
  result.add(e->constant);
  for (const Operand& term : e->operands) {
    const Linear part = expanded(term.of);
    result.add(part.constant, term.times);
    for (const Operand& x : part.terms) {
      int64_t times = 0;
      result.fits &= accumulate(times, x.times, term.times);
      result.terms.push_back({x.of, times});
    }
    result.fits &= part.fits;
  }
  result.gather();
  result.fits &= result.terms.size() <= kMostTerms;
  return result;
}

// ---- the operators

Expr add(Expr a, Expr b) {
  if (!a || !b) return nullptr;
  if (!are(Type::Int, a, b)) return float_operation(Kind::FloatAdd, lifted(a), lifted(b));
  Linear sum(a);
  sum.add(b);
  return sum.made();
}

Expr negate(Expr a) {
  if (!a) return nullptr;
  return a->type == Type::Int ? multiply(constant(-1), a) : multiply(float_constant(-1), a);
}

Expr subtract(Expr a, Expr b) {
  if (!a || !b) return nullptr;
  if (!are(Type::Int, a, b)) return add(a, negate(b));
  Linear difference(a);
  difference.add(b, -1);
  return difference.made();
}

Expr multiply(Expr a, Expr b) {
  if (!a || !b) return nullptr;
  if (!are(Type::Int, a, b)) return float_operation(Kind::FloatMultiply, lifted(a), lifted(b));
  Factors product(a);
  product.add(b);
  return product.made();
}

Expr power(Expr a, Expr b) {
  if (!a || !b) return nullptr;
  if (!are(Type::Int, a, b)) return float_operation(Kind::FloatPower, lifted(a), lifted(b));
  if (!is_constant(b)) return nullptr;
  if (b->constant < 0) return float_operation(Kind::FloatPower, to_float(a), to_float(b));
  if (b->constant > kMostFactors) return nullptr;
  Factors product;
  product.add(a, b->constant);
  return product.made();
}

}  // namespace gramme::shape
