// Interval arithmetic on floats: bounds of a Python number that is known only when the graph runs.
//
// Rounding is monotone, so the bounds of a sum, a product or a quotient are those of its corners. The C library's pow
// is not: its bounds are moved outward.
#pragma once
#include <algorithm>
#include <cmath>

namespace gramme::meta {

struct Interval {
  double low = -HUGE_VAL, high = HUGE_VAL;  // a known one is finite at both ends
  bool special = false;                     // or the number may be an infinity or a NaN

  static Interval around_zero(double bound) { return {-bound, bound}; }
  bool bounded() const { return std::isfinite(low) && std::isfinite(high); }
  bool known() const { return bounded() && !special; }
  bool is_point() const { return low == high && !special; }
  bool holds(double number) const { return low <= number && number <= high; }
  /// The bound of the magnitude.
  double bound() const { return known() ? std::max(std::fabs(low), std::fabs(high)) : HUGE_VAL; }
  /// The bound of the magnitude, if the number is finite.
  double finite_bound() const { return bounded() ? std::max(std::fabs(low), std::fabs(high)) : HUGE_VAL; }
  /// Unless it is infinite.
  Interval or_unknown() const { return bounded() ? *this : Interval(); }
  /// With what rounding by a function of unknown accuracy within a few units may add.
  Interval widened() const;
  /// With what conversion of operands and result to 32 bits may add.
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
/// The interval of Python's max(), or min(), of the two.
Interval maximum(Interval a, Interval b);
Interval minimum(Interval a, Interval b);
/// The interval of a number that lies in both.
Interval narrower(Interval a, Interval b);

}  // namespace gramme::meta
