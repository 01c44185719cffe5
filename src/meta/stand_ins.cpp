// Chooses a concrete value for each symbol without one.
#include "meta/stand_ins.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace gramme::meta {

using shape::Expr;

namespace {

/// Primes that are unlikely sizes, so conditions rarely hold for them by accident.
constexpr int64_t kUnlikely[] = {1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049};

}  // namespace

void StandIns::add(Expr symbol, std::optional<int64_t> value) { with_values_.add_symbol(of_.range(symbol), value); }

/// The value for a symbol: its example size, which has outcomes in the memo, unless that is 0 or 1, where operators act
/// differently.
int64_t StandIns::value(Expr symbol, std::optional<int64_t> now) {
  const shape::Range range = of_.range(symbol);
  const int64_t chosen =
      now && *now > 1 ? *now : kUnlikely[static_cast<size_t>(symbol->constant) % std::size(kUnlikely)];
  return std::clamp(chosen, range.low, range.high);
}

/// Gives symbols that equal an expression of others the value of that expression.
void StandIns::replace_equals() {
  shape::Assumptions roots = std::exchange(with_values_, {});
  for (size_t i = 0; i < of_.symbol_count(); ++i) {
    const Expr symbol = shape::symbol(static_cast<int64_t>(i));
    const Expr simple = of_.simplified(symbol);
    add(symbol, roots.hint(simple == symbol ? symbol : simple));
  }
}

bool StandIns::hold_for_all(const Outcome& outcome) {
  return std::ranges::all_of(outcome.guards, [&](Expr guard) { return of_.decide(guard) == true; });
}

}  // namespace gramme::meta
