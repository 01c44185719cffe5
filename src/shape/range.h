// Intervals that contain every value of an expression.
#pragma once
#include <cstdint>
#include <limits>

namespace gramme::shape {

/// The range of an Int, both bounds included. The smallest and largest 64-bit numbers mean unbounded.
struct Range {
  static constexpr int64_t kNoLow = std::numeric_limits<int64_t>::min();
  static constexpr int64_t kNoHigh = std::numeric_limits<int64_t>::max();
  int64_t low = kNoLow, high = kNoHigh;

  bool is_point() const { return low == high && low != kNoLow && high != kNoHigh; }
  bool operator==(const Range&) const = default;
};

/// The range of a Float; Floats are finite.
struct FloatRange {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
};

Range intersection(Range a, Range b);
Range operator+(Range a, Range b);
Range operator*(Range a, Range b);
Range power(Range base, int64_t exponent);
Range floor_divide(Range a, Range b);
Range modulo(Range a, Range b);
Range minimum(Range a, Range b);
Range maximum(Range a, Range b);

FloatRange to_float(Range range);
/// The range of function(x) for x in `range`; the function must never fall, like floor.
Range to_whole(FloatRange range, double (*function)(double));
FloatRange operator+(FloatRange a, FloatRange b);
FloatRange operator*(FloatRange a, FloatRange b);
FloatRange operator/(FloatRange a, FloatRange b);
FloatRange power(FloatRange base, FloatRange exponent);
FloatRange square_root(FloatRange range);

}  // namespace gramme::shape
