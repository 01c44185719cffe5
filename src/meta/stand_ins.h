// Infers calls on unbacked sizes like those on varying sizes (by rules, memo and patterns), with stand-in values.
#pragma once
#include <optional>

#include "meta/infer.h"

namespace gramme::meta {

/// The same assumptions with a value for every symbol, invented where there is none.
///
/// An outcome found with these values holds for all values only if `hold_for_all` is true for its guards.
class StandIns {
 public:
  /// `now(symbol)` is an unbacked size's example value; nullopt if it is data-dependent.
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
  /// True if the outcome's guards follow from the assumptions.
  bool hold_for_all(const Outcome& outcome);

 private:
  void add(shape::Expr symbol, std::optional<int64_t> value);
  int64_t value(shape::Expr symbol, std::optional<int64_t> now);
  void replace_equals();

  shape::Assumptions& of_;
  shape::Assumptions with_values_;
};

}  // namespace gramme::meta
