// Building blocks of expressions, for files of this room only.
#pragma once
#include "shape/arithmetic.h"
#include "shape/expression.h"
#include "shape/operands.h"

namespace gramme::shape {

/// The largest expression, in nodes, so that walks are short and texts readable.
constexpr uint32_t kLargest = 1000;

/// The one node of this form, which the caller has normalised; null if it would be too large.
Expr intern(Kind kind, Type type, int64_t constant, std::span<const Operand> operands);
/// Negative, zero or positive. The order depends on structure only, not on the order of creation.
int compare(Expr a, Expr b);

/// A sum under construction: a constant, and terms with coefficients.
struct Linear {
  Linear() = default;
  explicit Linear(Expr e) { add(e); }
  void add(int64_t value, int64_t times = 1);
  void add(Expr e, int64_t times = 1);
  /// The greatest common divisor of all coefficients, and of the constant if asked for. Zero if there are none.
  int64_t content(bool with_constant) const;
  /// Sorts the terms and joins equal ones.
  void gather();
  /// Divides by a divisor of all coefficients, and rounds the constant down.
  void divide(int64_t by);
  bool is_negative() const { return terms.empty() ? constant < 0 : terms[0].times < 0; }
  bool is(int64_t value) const { return terms.empty() && constant == value; }
  Expr made();

  int64_t constant = 0;
  Operands terms;
  bool fits = true;
};

/// A product under construction: a coefficient, and factors with exponents. A sum among the factors is divided by its
/// content, so that 2*a + 2 and a + 1 become the same factor.
struct Factors {
  Factors() = default;
  explicit Factors(Expr e) { add(e); }
  void add(int64_t value, int64_t exponent);
  void add(Expr e, int64_t exponent = 1);
  void gather();
  Expr made();

  int64_t coefficient = 1;
  Operands factors;
  bool fits = true;
};

/// The expression multiplied out; `fits` is false if that takes too many terms.
Linear expanded(Expr e);

/// An Int converted to a Float; null for a Bool.
Expr lifted(Expr e);
/// The node of an operation on one or two Floats.
Expr float_operation(Kind kind, Expr a, Expr b = nullptr);

/// The two sides of a comparison of Ints, without negative coefficients where possible; null for anything else.
struct Sides {
  Expr left = nullptr, right = nullptr;
};
Sides sides_of(Expr comparison);

Operation operation_of(Kind kind);
const char* text_of(Kind kind);
Type type_of(Kind kind);

/// The normal form of an expression with the kind and constant of `e` and these operands.
Expr normalised(Expr e, const Operands& operands);

/// The expression with each operand x replaced by operand(x), in normal form.
template <class Replace>
Expr rebuilt(Expr e, Replace&& operand) {
  Operands replaced;
  bool same = true;
  for (const Operand& old : e->operands) {
    replaced.push_back({operand(old.of), old.times});
    if (!replaced.back().of) return nullptr;
    same &= replaced.back().of == old.of;
  }
  return same ? e : normalised(e, replaced);
}

}  // namespace gramme::shape
