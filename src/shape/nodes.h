// How nodes are put together: for the files of this room.
#pragma once
#include "shape/arithmetic.h"
#include "shape/expression.h"
#include "shape/operands.h"

namespace gramme::shape {

/// Nodes of one expression at most, so that walks are short and texts can be read.
constexpr uint32_t kLargest = 1000;

/// The node of that form, which is normal; null if it would be too large.
Expr intern(Kind kind, Type type, int64_t constant, std::span<const Operand> operands);
/// Negative, zero or positive: by what the expressions are, whenever they were made.
int compare(Expr a, Expr b);

/// A constant and terms times their coefficients, on its way to be a sum.
struct Linear {
  Linear() = default;
  explicit Linear(Expr e) { add(e); }
  void add(int64_t value, int64_t times = 1);
  void add(Expr e, int64_t times = 1);
  /// Positive: what divides all coefficients; and the constant, if it counts. Zero if there are none.
  int64_t content(bool with_constant) const;
  /// Sorts, and joins equal terms; `terms` is in order from then on.
  void gather();
  /// By a divisor of all coefficients; the constant is rounded down.
  void divide(int64_t by);
  bool is_negative() const { return terms.empty() ? constant < 0 : terms[0].times < 0; }
  bool is(int64_t value) const { return terms.empty() && constant == value; }
  Expr made();

  int64_t constant = 0;
  Operands terms;
  bool fits = true;
};

/// A coefficient and factors to the power of their exponents, on its way to be a product. Sums among the factors are
/// freed of what divides all they consist of, so that 2*a + 2 and a + 1 meet.
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

/// Multiplied out; `fits` is false if that takes many terms.
Linear expanded(Expr e);

/// An Int as a Float; null for a Bool.
Expr lifted(Expr e);
/// The operation on two Floats, or on one.
Expr float_operation(Kind kind, Expr a, Expr b = nullptr);

/// Both sides of a comparison of Ints, without negative coefficients where possible; null for anything else.
struct Sides {
  Expr left = nullptr, right = nullptr;
};
Sides sides_of(Expr comparison);

Operation operation_of(Kind kind);
const char* text_of(Kind kind);
Type type_of(Kind kind);

/// An expression of the kind and constant of `e` on other operands.
Expr normalised(Expr e, const Operands& operands);

/// The expression with `operand(x)` for each operand x, normalised anew.
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
