// Corner arithmetic, with care for infinities and NaN.
#include "meta/interval.h"

#include <initializer_list>

namespace gramme::meta {

namespace {

/// The interval spanned by the corners; unknown if one is not finite.
Interval spanned(std::initializer_list<double> corners, bool special = false) {
  Interval result{HUGE_VAL, -HUGE_VAL, special};
  for (double corner : corners) {
    if (!std::isfinite(corner)) return {};
    result = {std::min(result.low, corner), std::max(result.high, corner), special};
  }
  return result;
}

}  // namespace

Interval Interval::widened() const {
  Interval result = *this;
  for (int i = 0; i < 4; ++i)
    result = {std::nextafter(result.low, -HUGE_VAL), std::nextafter(result.high, HUGE_VAL), special};
  return result.or_unknown();
}

Interval Interval::as_float32() const {
  auto least = static_cast<float>(low), most = static_cast<float>(high);
  for (int i = 0; i < 4; ++i) least = std::nextafter(least, -HUGE_VALF), most = std::nextafter(most, HUGE_VALF);
  return Interval{least, most, special}.or_unknown();
}

Interval sum(Interval a, Interval b) {
  return Interval{a.low + b.low, a.high + b.high, a.special || b.special}.or_unknown();
}

Interval difference(Interval a, Interval b) { return sum(a, negative(b)); }

Interval product(Interval a, Interval b) {
  return spanned({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high}, a.special || b.special);
}

Interval quotient(Interval a, Interval b) {
  if (b.holds(0)) return {};
  Interval result = spanned({a.low / b.low, a.low / b.high, a.high / b.low, a.high / b.high}, a.special || b.special);
  if (b.special) result = {std::min(result.low, 0.0), std::max(result.high, 0.0), true};  // division by an infinity
  return result;
}

Interval power(Interval base, Interval exponent) {
  if (!base.known() || !exponent.known() || base.low < 0) return {};
  if (base.low == 0 && exponent.low < 0) return {};
  const Interval corners = spanned({std::pow(base.low, exponent.low), std::pow(base.low, exponent.high),
                                    std::pow(base.high, exponent.low), std::pow(base.high, exponent.high)})
                               .widened();
  constexpr double kFarFromOverflow = 0x1p1000;
  if (corners.bound() > kFarFromOverflow) return {};
  return {std::max(corners.low, 0.0), corners.high};
}

Interval negative(Interval a) { return {-a.high, -a.low, a.special}; }

/// If one operand may be infinite or NaN, the result may be either operand.
Interval maximum(Interval a, Interval b) {
  if (!a.bounded() || !b.bounded()) return {};
  const double low = !a.special && !b.special ? std::max(a.low, b.low)
                     : !b.special             ? b.low
                     : !a.special             ? a.low
                                              : std::min(a.low, b.low);
  return {low, std::max(a.high, b.high), a.special || b.special};
}

Interval minimum(Interval a, Interval b) { return negative(maximum(negative(a), negative(b))); }

Interval narrower(Interval a, Interval b) {
  if (!a.known() || !b.known()) return a.known() ? a : b;
  return {std::max(a.low, b.low), std::min(a.high, b.high)};
}

}  // namespace gramme::meta
