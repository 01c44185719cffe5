// A size, stride or offset: an integer, an expression over a capture's symbols, or a wildcard.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>

#include "shape/expression.h"

namespace gramme::shape {

/// One word. Equal numbers and equal expressions have equal words.
class SymInt {
 public:
  /// The number must be at least kLowest, as all sizes and strides are.
  constexpr SymInt(int64_t number = 0) : word_(number) {}
  explicit SymInt(Expr e) : word_(is_constant(e) ? e->constant : kExpressions + e->id) {}

  /// The wildcard, for a number that is not compared.
  static constexpr SymInt any() {
    SymInt result;
    result.word_ = kAny;
    return result;
  }
  bool is_any() const { return word_ == kAny; }
  bool is_number() const { return word_ >= kLowest; }
  std::optional<int64_t> number() const { return is_number() ? std::optional(word_) : std::nullopt; }
  Expr expr() const {
    return is_number() ? constant(word_) : expression_of(static_cast<uint32_t>(word_ - kExpressions));
  }
  /// For hashes and keys.
  int64_t word() const { return word_; }
  bool operator==(const SymInt&) const = default;

 private:
  static constexpr int64_t kAny = std::numeric_limits<int64_t>::min();
  static constexpr int64_t kExpressions = kAny + 1;  // plus the expression's id
  static constexpr int64_t kLowest = kExpressions + (int64_t{1} << 32);

  int64_t word_;
};

/// The product; none if it cannot be expressed.
inline std::optional<SymInt> product(SymInt a, SymInt b) {
  const Expr e = multiply(a.expr(), b.expr());
  return e ? std::optional(SymInt(e)) : std::nullopt;
}

inline std::string print(SymInt number, std::span<const std::string> names = {}) {
  if (number.is_any()) return "?";
  return number.is_number() ? std::to_string(*number.number()) : print(number.expr(), names);
}

}  // namespace gramme::shape
