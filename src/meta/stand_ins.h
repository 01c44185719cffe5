// Calls that take sizes without a value, inferred as those are whose sizes vary: by rules, memo and fakes of patterns.
#pragma once
#include <optional>

#include "meta/infer.h"

namespace gramme::meta {

/// What is known of the same symbols, each with a value: one of its own where it has none.
///
/// An outcome that was found with these holds for every value only if `hold_for_all` says so of its guards.
class StandIns {
 public:
  /// `now(symbol)` is what an unbacked size is in the example; none if it comes out of data.
  template <class Now>
  StandIns(shape::Assumptions& of, Now now) : of_(of) {
    for (size_t i = 0; i < of.symbol_count(); ++i) {
      const shape::Expr symbol = shape::symbol(static_cast<int64_t>(i));
      const std::optional<int64_t> hint = of.hint(symbol);
      add(symbol, hint ? hint : std::optional(value(symbol, now(symbol))));
    }
    replace_equals();
  }

  shape::Assumptions& assumptions() { return with_values_; }
  /// True if the guards follow from what is known.
  bool hold_for_all(const Outcome& outcome);

 private:
  void add(shape::Expr symbol, std::optional<int64_t> value);
  int64_t value(shape::Expr symbol, std::optional<int64_t> now);
  void replace_equals();

  shape::Assumptions& of_;
  shape::Assumptions with_values_;
};

}  // namespace gramme::meta
