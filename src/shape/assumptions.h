// What a capture knows of its symbols: their values while it runs, the intervals they are in, and what its guards say.
#pragma once
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "shape/expression.h"
#include "shape/range.h"

namespace gramme::shape {

class Assumptions {
 public:
  /// Symbols are numbered from 0. A symbol without a hint is unbacked: its value comes from data.
  Expr add_symbol(Range range, std::optional<int64_t> hint);
  Expr add_float(std::optional<double> hint);
  size_t symbol_count() const { return hints_.size(); }

  /// From now on the expression, a Bool, is true: it has become a guard.
  void learn(Expr e);
  /// True or false if the assumptions imply that; else none. Hints are not used.
  std::optional<bool> decide(Expr e);
  /// An interval that holds every value that the Int may have.
  Range range(Expr e);
  /// An expression that is equal as long as the assumptions hold: symbols with a known equal expression are replaced,
  /// and what can have only one value becomes a constant.
  Expr simplified(Expr e);
  /// True if it contains a symbol without a hint.
  bool is_unbacked(Expr e) const;
  /// The word of its value at capture time; none if it has no value or needs a symbol without a hint.
  std::optional<int64_t> hint(Expr e);

 private:
  class Hints;

  Range range_by_structure(Expr e);
  FloatRange float_range(Expr e);
  std::optional<bool> decided(Expr e);
  Expr simpler(Expr e);
  Expr simpler_comparison(Expr e);
  Expr simpler_extremum(Expr e);
  Expr simpler_sum(Expr e);
  void note(Expr e);
  void narrow(Expr operand, Range range);
  void eliminate(Expr equality);
  void replace(int64_t symbol, Expr by);

  std::vector<std::optional<int64_t>> hints_;  // by symbol
  uint64_t unbacked_ = 0;                      // as Expression::symbols
  std::vector<Expr> replaced_;                 // by symbol; null for those that stand for themselves
  std::unordered_set<Expr> true_;
  std::unordered_map<Expr, Range> known_;  // the left sides of comparisons
  std::unordered_map<Expr, std::optional<int64_t>> values_;
  std::unordered_map<Expr, Expr> simplified_;
};

}  // namespace gramme::shape
