// Decides comparisons by intervals and by the guards learned so far. An equality that is learned replaces one of its
// symbols everywhere.
#include "shape/assumptions.h"

#include <cmath>

#include "shape/lower.h"

namespace gramme::shape {
namespace {

/// An interval is narrowed past at most this many excluded values.
constexpr int kMostHoles = 64;

bool mentions(Expr e, int64_t symbol) {
  if (!(e->symbols >> std::min<int64_t>(symbol, 63) & 1)) return false;
  if (e->kind == Kind::Symbol) return e->constant == symbol;
  return std::any_of(e->operands.begin(), e->operands.end(),
                     [symbol](const Operand& operand) { return mentions(operand.of, symbol); });
}

Range range_of_comparison(Expr e) {
  switch (e->kind) {
    case Kind::AtMost:
      return {Range::kNoLow, e->constant};
    case Kind::AtLeast:
      return {e->constant, Range::kNoHigh};
    case Kind::Equal:
      return {e->constant, e->constant};
    case GRAMME_SHAPE_LEAVES:
    case GRAMME_SHAPE_INTS:
    case GRAMME_SHAPE_FLOATS:
    case Kind::NotEqual:
    case GRAMME_SHAPE_FLOAT_COMPARISONS:
    case GRAMME_SHAPE_CONNECTIVES:
      break;
  }
  return {};
}

/// The truth of a <= b or a < b if it holds for all values or for none; else nothing.
std::optional<bool> ordered(FloatRange a, FloatRange b, bool or_equal) {
  if (or_equal ? a.high <= b.low : a.high < b.low) return true;
  if (or_equal ? a.low > b.high : a.low >= b.high) return false;
  return std::nullopt;
}

}  // namespace

Expr Assumptions::add_symbol(Range range, std::optional<int64_t> hint) {
  const Expr made = symbol(static_cast<int64_t>(hints_.size()));
  if (!hint) unbacked_ |= made->symbols;
  hints_.push_back(hint);
  replaced_.push_back(nullptr);
  known_[made] = range;
  return made;
}

Expr Assumptions::add_float(std::optional<double> hint) {
  const Expr made = symbol(static_cast<int64_t>(hints_.size()), Type::Float);
  hints_.push_back(hint ? std::optional(as_word(*hint)) : std::nullopt);
  replaced_.push_back(nullptr);
  return made;
}

bool Assumptions::is_unbacked(Expr e) const {
  if (!(e->symbols & unbacked_)) return false;
  if (e->kind == Kind::Symbol) return !hints_.at(static_cast<size_t>(e->constant));
  return std::any_of(e->operands.begin(), e->operands.end(),
                     [this](const Operand& operand) { return is_unbacked(operand.of); });
}

// ---- hints

/// Computes hints in the order of the flat program, so that what has a hint also has a value there.
class Assumptions::Hints {
 public:
  using Value = std::optional<int64_t>;
  explicit Hints(Assumptions& of) : of_(of) {}

  const Value* known(Expr e) const {
    const auto found = of_.values_.find(e);
    return found == of_.values_.end() ? nullptr : &found->second;
  }
  Value keep(Expr e, Value value) { return of_.values_[e] = value; }
  Value leaf(Expr e) {
    return is_constant(e) ? std::optional(e->constant) : of_.hints_.at(static_cast<size_t>(e->constant));
  }
  Value compute(Operation operation, Value a, Value b) {
    int64_t result = 0;
    return a && b && apply(operation, *a, *b, result) ? std::optional(result) : std::nullopt;
  }

 private:
  Assumptions& of_;
};

std::optional<int64_t> Assumptions::hint(Expr e) {
  Hints hints(*this);
  return Lowering(hints).lower(e);
}

// ---- intervals

Range Assumptions::range(Expr e) {
  Range range = range_by_structure(e);
  if (e->kind == Kind::Sum) {  // known_ has the terms without constant and common divisor
    Linear sum(e);
    const int64_t content = sum.content(false) * (sum.is_negative() ? -1 : 1);
    sum.constant = 0;
    sum.divide(content);
    const auto found = known_.find(sum.made());
    if (found != known_.end())
      range = intersection(range, found->second * Range{content, content} + Range{e->constant, e->constant});
  } else if (const auto found = known_.find(e); found != known_.end()) {
    range = intersection(range, found->second);
  }
  return range;
}

Range Assumptions::range_by_structure(Expr e) {
  auto operand = [&](size_t i) { return range(e->operands[i].of); };
  switch (e->kind) {
    case Kind::Constant:
      return {e->constant, e->constant};
    case Kind::Sum: {
      Range whole{e->constant, e->constant};
      for (const Operand& term : e->operands) whole = whole + range(term.of) * Range{term.times, term.times};
      return whole;
    }
    case Kind::Product: {
      Range whole{1, 1};
      for (const Operand& factor : e->operands) whole = whole * power(range(factor.of), factor.times);
      return whole;
    }
    case Kind::FloorDivide:
      return floor_divide(operand(0), operand(1));
    case Kind::Modulo:
      return modulo(operand(0), operand(1));
    case Kind::Minimum:
    case Kind::Maximum: {
      Range whole = operand(0);
      for (size_t i = 1; i < e->operands.size(); ++i)
        whole = e->kind == Kind::Minimum ? minimum(whole, operand(i)) : maximum(whole, operand(i));
      return whole;
    }
    case Kind::Truncate:
      return to_whole(float_range(e->operands[0].of), std::trunc);
    case Kind::Floor:
      return to_whole(float_range(e->operands[0].of), std::floor);
    case Kind::Ceil:
      return to_whole(float_range(e->operands[0].of), std::ceil);
    case Kind::Round:
      return to_whole(float_range(e->operands[0].of), std::nearbyint);
    case Kind::Symbol:
    case GRAMME_SHAPE_FLOATS:
    case GRAMME_SHAPE_INT_COMPARISONS:
    case GRAMME_SHAPE_FLOAT_COMPARISONS:
    case GRAMME_SHAPE_CONNECTIVES:
      break;
  }
  return {};
}

FloatRange Assumptions::float_range(Expr e) {
  auto operand = [&](size_t i) { return float_range(e->operands[i].of); };
  switch (e->kind) {
    case Kind::Constant:
      return {float_value(e), float_value(e)};
    case Kind::ToFloat:
      return to_float(range(e->operands[0].of));
    case Kind::FloatAdd:
      return operand(0) + operand(1);
    case Kind::FloatMultiply:
      return operand(0) * operand(1);
    case Kind::FloatDivide:
      return operand(0) / operand(1);
    case Kind::FloatPower:
      return power(operand(0), operand(1));
    case Kind::SquareRoot:
      return square_root(operand(0));
    case Kind::Symbol:
    case GRAMME_SHAPE_INTS:
    case GRAMME_SHAPE_INT_COMPARISONS:
    case GRAMME_SHAPE_FLOAT_COMPARISONS:
    case GRAMME_SHAPE_CONNECTIVES:
      break;
  }
  return {};
}

// ---- decisions

std::optional<bool> Assumptions::decide(Expr e) {
  if (const std::optional<bool> known = decided(e)) return known;
  const Expr simple = simplified(e);
  return simple == e ? std::nullopt : decided(simple);
}

std::optional<bool> Assumptions::decided(Expr e) {
  if (is_constant(e)) return e->constant != 0;
  if (true_.contains(e)) return true;
  if (const Expr opposite = negation(e); opposite && true_.contains(opposite)) return false;
  auto floats = [&](size_t i) { return float_range(e->operands[i].of); };
  switch (e->kind) {
    case Kind::AtMost:
    case Kind::AtLeast: {
      const Range known = range(e->operands[0].of), wanted = range_of_comparison(e), both = intersection(known, wanted);
      if (both == known && (e->kind == Kind::AtLeast || known.high != Range::kNoHigh)) return true;
      return both.low > both.high ? std::optional(false) : std::nullopt;
    }
    case Kind::Equal:
    case Kind::NotEqual: {
      const Range known = range(e->operands[0].of);
      if (e->constant < known.low || e->constant > known.high) return e->kind == Kind::NotEqual;
      return known.is_point() ? std::optional(e->kind == Kind::Equal) : std::nullopt;
    }
    case Kind::FloatLess:
    case Kind::FloatAtMost:
      return ordered(floats(0), floats(1), e->kind == Kind::FloatAtMost);
    case Kind::FloatEqual:
    case Kind::FloatNotEqual: {
      const bool apart = floats(0).high < floats(1).low || floats(1).high < floats(0).low;
      return apart ? std::optional(e->kind == Kind::FloatNotEqual) : std::nullopt;
    }
    case Kind::And:
    case Kind::Or: {
      const bool decides = e->kind == Kind::Or;
      bool all = true;
      for (const Operand& part : e->operands) {
        const std::optional<bool> known = decided(part.of);
        if (known == decides) return decides;
        all &= known.has_value();
      }
      return all ? std::optional(!decides) : std::nullopt;
    }
    case GRAMME_SHAPE_LEAVES:
    case GRAMME_SHAPE_INTS:
    case GRAMME_SHAPE_FLOATS:
      break;
  }
  return std::nullopt;
}

// ---- learning

void Assumptions::learn(Expr e) {
  if (is_constant(e) || true_.contains(e)) return;
  if (e->kind == Kind::And) {
    for (const Operand& part : e->operands) learn(part.of);
    true_.insert(e);
    return;
  }
  const Expr simple = simplified(e);
  note(e);
  if (simple != e)
    learn(simple);
  else if (e->kind == Kind::Equal)
    eliminate(e);
  simplified_.clear();
}

/// Records it as true in this form.
void Assumptions::note(Expr e) {
  true_.insert(e);
  if (sides_of(e).left) narrow(e->operands[0].of, range_of_comparison(e));
}

void Assumptions::narrow(Expr operand, Range to) {
  auto [found, is_new] = known_.emplace(operand, to);
  if (!is_new) found->second = intersection(found->second, to);
  auto is_hole = [&](int64_t value) {
    const Expr c = constant(value);
    const Expr hole = c ? not_equal(operand, c) : nullptr;
    return hole && true_.contains(hole);
  };
  for (int i = 0; i < kMostHoles; ++i) {
    const Range now = range(operand);
    if (now.low != Range::kNoLow && is_hole(now.low))
      found->second.low = now.low + 1;
    else if (now.high != Range::kNoHigh && is_hole(now.high))
      found->second.high = now.high - 1;
    else
      break;
  }
}

/// Solves the equality for one of its symbols and replaces that: preferably one without a hint, else the last.
void Assumptions::eliminate(Expr equality) {
  const Linear sum(equality->operands[0].of);
  const Operand* chosen = nullptr;
  auto rank = [this](const Operand& term) {
    return std::pair(!hints_[static_cast<size_t>(term.of->constant)], term.of->constant);
  };
  for (const Operand& term : sum.terms) {
    if (term.of->kind != Kind::Symbol || std::abs(term.times) != 1) continue;
    const bool elsewhere = std::any_of(sum.terms.begin(), sum.terms.end(), [&](const Operand& other) {
      return &other != &term && mentions(other.of, term.of->constant);
    });
    if (!elsewhere && (!chosen || rank(term) > rank(*chosen))) chosen = &term;
  }
  if (!chosen) return;
  Linear rest;
  rest.add(equality->constant, chosen->times);
  for (const Operand& term : sum.terms)
    if (term.of != chosen->of) rest.add(term.of, -term.times * chosen->times);
  if (const Expr by = rest.made()) replace(chosen->of->constant, by);
}

/// What was known of the symbol now holds for the expression.
void Assumptions::replace(int64_t symbol, Expr by) {
  std::vector<Expr> substitution(static_cast<size_t>(symbol) + 1);
  substitution.back() = by;
  for (Expr& old : replaced_)
    if (old)
      if (const Expr made = substitute(old, substitution)) old = made;
  replaced_[static_cast<size_t>(symbol)] = by;
  for (const auto& [operand, range] : std::unordered_map(known_)) {
    const Expr made = mentions(operand, symbol) ? substitute(operand, substitution) : nullptr;
    if (!made) continue;
    const Expr low = range.low == Range::kNoLow ? nullptr : at_least(made, constant(range.low));
    const Expr high = range.high == Range::kNoHigh ? nullptr : at_most(made, constant(range.high));
    for (Expr bound : {low, high})
      if (bound && !is_constant(bound)) note(bound);
  }
  for (Expr e : std::unordered_set(true_)) {
    const Expr made = mentions(e, symbol) ? substitute(e, substitution) : nullptr;
    if (made && !is_constant(made)) note(made);
  }
}

}  // namespace gramme::shape
