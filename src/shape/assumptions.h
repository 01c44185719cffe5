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
  /// Symbols are numbered from 0. Without a hint its value comes out of data.
  Expr add_symbol(Range range, std::optional<int64_t> hint);
  Expr add_float(std::optional<double> hint);
  size_t symbol_count() const { return hints_.size(); }

  /// From now on the expression, a Bool, is true: it has become a guard.
  void learn(Expr e);
  /// True or false if it is so whatever the symbols are; else none. None if that does not follow: hints are not asked.
  std::optional<bool> decide(Expr e);
  /// No value that the Int may have lies outside.
  Range range(Expr e);
  /// Equal as long as the assumptions hold: symbols found equal to an expression are replaced by it, and what can only
  /// be one thing is that.
  Expr simplified(Expr e);
  /// True if it is computed of a symbol without a hint.
  bool is_unbacked(Expr e) const;
  /// The word that is its value at capture time; none if it has none, or takes a symbol without a hint.
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
  std::unordered_map<Expr, Range> known_;  // of what comparisons compare
  std::unordered_map<Expr, std::optional<int64_t>> values_;
  std::unordered_map<Expr, Expr> simplified_;
};

}  // namespace gramme::shape
