// Interval arithmetic: bounds of Ints are computed in 128 bits with infinities, bounds of Floats in double.
#include "shape/range.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace gramme::shape {
namespace {

// ---- bounds of Ints, with infinities outside the 64-bit numbers

using Wide = __int128;
constexpr Wide kInfinity = Wide{1} << 100;

Wide low_of(Range range) { return range.low == Range::kNoLow ? -kInfinity : Wide{range.low}; }
Wide high_of(Range range) { return range.high == Range::kNoHigh ? kInfinity : Wide{range.high}; }
bool is_infinite(Wide end) { return end == kInfinity || end == -kInfinity; }
int sign(Wide end) { return (end > 0) - (end < 0); }

int64_t narrow(Wide end) { return static_cast<int64_t>(std::clamp(end, Wide{Range::kNoLow}, Wide{Range::kNoHigh})); }

Range range_of(std::initializer_list<Wide> ends) { return {narrow(std::min(ends)), narrow(std::max(ends))}; }

Wide product(Wide a, Wide b) { return is_infinite(a) || is_infinite(b) ? sign(a) * sign(b) * kInfinity : a * b; }

/// For two infinities, one of the possible quotients; the others lie between the quotients of the other bounds.
Wide quotient(Wide a, Wide b) {
  if (is_infinite(b)) return sign(a) * sign(b) < 0 ? -1 : 0;
  if (is_infinite(a)) return sign(a) * sign(b) * kInfinity;
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

Range quotients(Range a, Wide low, Wide high) {
  return range_of(
      {quotient(low_of(a), low), quotient(low_of(a), high), quotient(high_of(a), low), quotient(high_of(a), high)});
}

Range hull(Range a, Range b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

// ---- bounds of Floats

FloatRange range_of_floats(std::initializer_list<double> ends) {
  for (double end : ends)
    if (std::isnan(end)) return {};
  return {std::min(ends), std::max(ends)};
}

/// A zero bound times an infinite one is zero: every value is finite.
double finite_product(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

/// The quotient of two bounds. An infinite bound is only approached, and so is a zero in b.
double finite_quotient(double a, double b) { return a == 0 || std::isinf(b) ? 0 : a / b; }

}  // namespace

Range intersection(Range a, Range b) { return {std::max(a.low, b.low), std::min(a.high, b.high)}; }

Range operator+(Range a, Range b) { return {narrow(low_of(a) + low_of(b)), narrow(high_of(a) + high_of(b))}; }

Range operator*(Range a, Range b) {
  return range_of({product(low_of(a), low_of(b)), product(low_of(a), high_of(b)), product(high_of(a), low_of(b)),
                   product(high_of(a), high_of(b))});
}

Range power(Range base, int64_t exponent) {
  if (exponent % 2 == 0 && base.low < 0 && base.high > 0)
    base = {0, std::max(base.high, base.low == Range::kNoLow ? Range::kNoHigh : -base.low)};
  Range result{1, 1};
  // squared first: for a negative base only pairs of factors keep the order of the bounds
  const Range square = base * base;
  for (int64_t i = 0; i < exponent / 2; ++i) result = result * square;
  return exponent % 2 ? result * base : result;
}

Range floor_divide(Range a, Range b) {
  Range result{Range::kNoHigh, Range::kNoLow};  // none
  if (b.high >= 1) result = hull(result, quotients(a, std::max(low_of(b), Wide{1}), high_of(b)));
  if (b.low <= -1) result = hull(result, quotients(a, low_of(b), std::min(high_of(b), Wide{-1})));
  return result.low <= result.high ? result : Range();
}

Range modulo(Range a, Range b) {
  if (b.low >= 1 && a.low >= 0 && a.high < b.low) return a;
  const Wide low = std::min(low_of(b) + 1, Wide{0}), high = std::max(high_of(b) - 1, Wide{0});
  Range result{b.low == Range::kNoLow ? Range::kNoLow : narrow(low),
               b.high == Range::kNoHigh ? Range::kNoHigh : narrow(high)};
  if (b.low >= 1 && a.low >= 0) result.high = std::min(result.high, a.high);
  return result;
}

Range minimum(Range a, Range b) { return {std::min(a.low, b.low), std::min(a.high, b.high)}; }
Range maximum(Range a, Range b) { return {std::max(a.low, b.low), std::max(a.high, b.high)}; }

FloatRange to_float(Range range) {
  FloatRange result;
  if (range.low != Range::kNoLow) result.low = static_cast<double>(range.low);
  if (range.high != Range::kNoHigh) result.high = static_cast<double>(range.high);
  return result;
}

Range to_whole(FloatRange range, double (*function)(double)) {
  const double low = function(range.low), high = function(range.high);
  Range result;
  if (low > -0x1p63) result.low = low < 0x1p63 ? static_cast<int64_t>(low) : Range::kNoHigh;
  if (high < 0x1p63) result.high = high > -0x1p63 ? static_cast<int64_t>(high) : Range::kNoLow;
  return result;
}

// Rounding to nearest is monotonic, so the rounded results at the bounds are the bounds.

FloatRange operator+(FloatRange a, FloatRange b) { return range_of_floats({a.low + b.low, a.high + b.high}); }

FloatRange operator*(FloatRange a, FloatRange b) {
  return range_of_floats({finite_product(a.low, b.low), finite_product(a.low, b.high), finite_product(a.high, b.low),
                          finite_product(a.high, b.high)});
}

FloatRange operator/(FloatRange a, FloatRange b) {
  if (b.low < 0 && b.high > 0) return {};
  // a zero bound is approached from the side on which the interval lies
  const double low = b.low == 0 ? 0.0 : b.low, high = b.high == 0 ? (b.low < 0 ? -0.0 : 0.0) : b.high;
  return range_of_floats({finite_quotient(a.low, low), finite_quotient(a.low, high), finite_quotient(a.high, low),
                          finite_quotient(a.high, high)});
}

FloatRange power(FloatRange base, FloatRange exponent) {
  if (base.low < 0 || exponent.low != exponent.high) return {};
  const double at_low = std::pow(base.low, exponent.low), at_high = std::pow(base.high, exponent.low);
  // pow() is not correctly rounded
  return {std::max(0.0, std::nextafter(std::min(at_low, at_high), -1)),
          std::nextafter(std::max(at_low, at_high), std::numeric_limits<double>::infinity())};
}

FloatRange square_root(FloatRange range) {
  return {std::sqrt(std::max(range.low, 0.0)), std::sqrt(std::max(range.high, 0.0))};
}

}  // namespace gramme::shape
