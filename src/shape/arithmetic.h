// What each operation does to 64-bit words. Only this file knows Python's rounding, and for which operands there is no
// value.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

namespace gramme::shape {

enum class Operation : uint32_t {
#define OPERATION(name, operands) name,
#include "shape/operations.def"
#undef OPERATION
};

constexpr uint8_t kOperands[] = {
#define OPERATION(name, operands) operands,
#include "shape/operations.def"
#undef OPERATION
};
constexpr bool takes_two(Operation operation) { return kOperands[static_cast<size_t>(operation)] == 2; }

/// An operation without a result: it ends the run if its condition does not hold.
constexpr bool is_requirement(Operation operation) { return operation >= Operation::Require; }

/// Integers of at most this magnitude convert to floats exactly.
constexpr int64_t kExact = int64_t{1} << 53;

inline double as_float(int64_t word) { return std::bit_cast<double>(word); }
inline int64_t as_word(double value) { return std::bit_cast<int64_t>(value); }

/// The quotient rounded down, and the remainder, which has the divisor's sign. The divisor is not zero.
inline std::pair<int64_t, int64_t> floor_division(int64_t a, int64_t b) {
  if (static_cast<uint64_t>(a | b) >> 32 == 0) {  // a 32-bit division takes a third of the time, and sizes fit
    const auto x = static_cast<uint32_t>(a), y = static_cast<uint32_t>(b);
    return {x / y, x % y};
  }
  const int64_t quotient = a / b, rest = a % b;
  const bool rounds = rest != 0 && (rest < 0) != (b < 0);
  return {quotient - rounds, rounds ? rest + b : rest};
}

inline bool give(double value, int64_t& result) {
  result = as_word(value);
  return std::isfinite(value);
}

inline bool give_whole(double value, int64_t& result) {
  if (!(value >= -0x1p63 && value < 0x1p63)) return false;
  result = static_cast<int64_t>(value);
  return true;
}

/// False if there is no value: the result takes more than 64 bits, is no finite float, or Python would raise; for a
/// Require, if it does not hold. `result` is undefined then.
[[gnu::always_inline]] inline bool apply(Operation operation, int64_t a, int64_t b, int64_t& result) {
  switch (operation) {
    case Operation::None:
      return false;
    case Operation::Add:
      return !__builtin_add_overflow(a, b, &result);
    case Operation::Subtract:
      return !__builtin_sub_overflow(a, b, &result);
    case Operation::Multiply:
      return !__builtin_mul_overflow(a, b, &result);
    case Operation::FloorDivide:
      if (b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min())) [[unlikely]]
        return false;
      result = floor_division(a, b).first;
      return true;
    case Operation::Modulo:
      if (b == 0) [[unlikely]]
        return false;
      result = b == -1 ? 0 : floor_division(a, b).second;
      return true;
    case Operation::Minimum:
      result = std::min(a, b);
      return true;
    case Operation::Maximum:
      result = std::max(a, b);
      return true;
    case Operation::Truncate:
      return give_whole(std::trunc(as_float(a)), result);
    case Operation::Floor:
      return give_whole(std::floor(as_float(a)), result);
    case Operation::Ceil:
      return give_whole(std::ceil(as_float(a)), result);
    case Operation::Round:
      return give_whole(std::nearbyint(as_float(a)), result);
    case Operation::ToFloat:
      result = as_word(static_cast<double>(a));
      return a >= -kExact && a <= kExact;
    case Operation::FloatAdd:
      return give(as_float(a) + as_float(b), result);
    case Operation::FloatMultiply:
      return give(as_float(a) * as_float(b), result);
    case Operation::FloatDivide:
      return give(as_float(a) / as_float(b), result);
    case Operation::FloatPower:
      return give(std::pow(as_float(a), as_float(b)), result);
    case Operation::SquareRoot:
      return give(std::sqrt(as_float(a)), result);
    case Operation::AtMost:
      result = a <= b;
      return true;
    case Operation::AtLeast:
      result = a >= b;
      return true;
    case Operation::Equal:
      result = a == b;
      return true;
    case Operation::NotEqual:
      result = a != b;
      return true;
    case Operation::FloatLess:
      result = as_float(a) < as_float(b);
      return true;
    case Operation::FloatAtMost:
      result = as_float(a) <= as_float(b);
      return true;
    case Operation::FloatEqual:
      result = as_float(a) == as_float(b);
      return true;
    case Operation::FloatNotEqual:
      result = as_float(a) != as_float(b);
      return true;
    case Operation::And:
      result = a & b;
      return true;
    case Operation::Or:
      result = a | b;
      return true;
    case Operation::Require:
      return a != 0;
    case Operation::RequireAtMost:
      return a <= b;
    case Operation::RequireAtLeast:
      return a >= b;
    case Operation::RequireEqual:
      return a == b;
    case Operation::RequireNotEqual:
      return a != b;
  }
  return false;
}

}  // namespace gramme::shape
