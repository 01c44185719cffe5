// Intervals that hold every value of an expression.
#pragma once
#include <cstdint>
#include <limits>

namespace gramme::shape {

/// Of an Int, both ends included. The ends of 64 bits stand for no bound: values there and beyond are in it.
struct Range {
  static constexpr int64_t kNoLow = std::numeric_limits<int64_t>::min();
  static constexpr int64_t kNoHigh = std::numeric_limits<int64_t>::max();
  int64_t low = kNoLow, high = kNoHigh;

  bool is_point() const { return low == high && low != kNoLow && high != kNoHigh; }
  bool operator==(const Range&) const = default;
};

/// Of a Float; those are finite.
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
/// Of a function that never falls, such as floor.
Range to_whole(FloatRange range, double (*function)(double));
FloatRange operator+(FloatRange a, FloatRange b);
FloatRange operator*(FloatRange a, FloatRange b);
FloatRange operator/(FloatRange a, FloatRange b);
FloatRange power(FloatRange base, FloatRange exponent);
FloatRange square_root(FloatRange range);

}  // namespace gramme::shape
