// Interval arithmetic on floats, for bounds of Python numbers known only when the graph runs.
//
// Rounding is monotone, so sums, products and quotients of the bounds are bounds of the results. The C library's pow is
// not monotone, so its bounds are widened.
#pragma once
#include <algorithm>
#include <cmath>

namespace gramme::meta {

struct Interval {
  double low = -HUGE_VAL, high = HUGE_VAL;  // finite at both ends if known
  bool special = false;                     // the number may also be infinite or NaN

  static Interval around_zero(double bound) { return {-bound, bound}; }
  bool bounded() const { return std::isfinite(low) && std::isfinite(high); }
  bool known() const { return bounded() && !special; }
  bool is_point() const { return low == high && !special; }
  bool holds(double number) const { return low <= number && number <= high; }
  /// A bound of the magnitude.
  double bound() const { return known() ? std::max(std::fabs(low), std::fabs(high)) : HUGE_VAL; }
  /// A bound of the magnitude if the number is finite.
  double finite_bound() const { return bounded() ? std::max(std::fabs(low), std::fabs(high)) : HUGE_VAL; }
  /// The interval itself, or unknown if a bound is infinite.
  Interval or_unknown() const { return bounded() ? *this : Interval(); }
  /// Widened by a few units in the last place, for functions of limited accuracy.
  Interval widened() const;
  /// Widened by the rounding of operands and result to 32 bits.
  Interval as_float32() const;
};

Interval sum(Interval a, Interval b);
Interval difference(Interval a, Interval b);
Interval product(Interval a, Interval b);
/// Unknown if the divisor may be zero.
Interval quotient(Interval a, Interval b);
/// Unknown if it may raise, or be complex.
Interval power(Interval base, Interval exponent);
Interval negative(Interval a);
/// The interval of Python's max() (or min()) of two numbers.
Interval maximum(Interval a, Interval b);
Interval minimum(Interval a, Interval b);
/// The intersection.
Interval narrower(Interval a, Interval b);

}  // namespace gramme::meta
