// Sorts each guard on numbers into one of the kinds of shape_kinds.def, and removes those of the dropped kind.
#include "guards/dropped.h"

#include <algorithm>

#include "base/process.h"

namespace gramme::guards {
namespace {

using shape::Expr;
using SourceKind = source::Kind;

enum class ShapeKind : uint8_t {
#define SHAPE_KIND(name) name,
#include "guards/shape_kinds.def"
#undef SHAPE_KIND
  None,
};

constexpr const char* kNames[] = {
#define SHAPE_KIND(name) #name,
#include "guards/shape_kinds.def"
#undef SHAPE_KIND
};

struct State {
  ShapeKind dropped = ShapeKind::None;  // GIL, a word: set by tests only
};
OfProcess<State> state;

template <class Test>
bool any(Expr e, Test&& test) {
  return test(e) || std::any_of(e->operands.begin(), e->operands.end(),
                                [&](const shape::Operand& operand) { return any(operand.of, test); });
}

bool has(Expr e, std::initializer_list<shape::Kind> kinds) {
  return any(e, [&](Expr part) { return std::find(kinds.begin(), kinds.end(), part->kind) != kinds.end(); });
}

class Sorter {
 public:
  explicit Sorter(const ShapeGuards& guards) : guards_(guards) {}

  static ShapeKind of(const ShapeGuards::Property& property) {
    return property.source->kind == SourceKind::SizeOf ? ShapeKind::SizeOfAnother : ShapeKind::StrideOfSizes;
  }

  ShapeKind of(const ShapeGuards::Condition& condition) const {
    using shape::Kind;
    const Expr e = condition.holds;
    if (mentions(e, [](SourceKind kind) { return kind == SourceKind::StrideOf; })) return ShapeKind::Stride;
    if (mentions(e, [](SourceKind kind) { return kind == SourceKind::OffsetOf; })) return ShapeKind::Offset;
    if (mentions(e, [](SourceKind kind) { return !source::is_number(kind); })) return ShapeKind::Int;
    if (has(e, {Kind::FloorDivide, Kind::Modulo})) return ShapeKind::Remainder;
    if (has(e, {Kind::Or, Kind::And})) return ShapeKind::Either;
    const bool one = !e->operands.empty() && e->operands[0].of->kind == Kind::Symbol;
    switch (e->kind) {
      case Kind::Equal:
        return ShapeKind::EqualSizes;
      case Kind::NotEqual:
        if (!one) return ShapeKind::UnequalSizes;
        return e->constant == 0 || e->constant == 1 ? ShapeKind::NotOne : ShapeKind::OtherValue;
      case Kind::AtLeast:
        if (!one) return ShapeKind::Order;
        return e->constant <= 1 ? ShapeKind::NotEmpty : ShapeKind::Least;
      case Kind::AtMost:
        return one ? ShapeKind::Most : ShapeKind::Order;
      case GRAMME_SHAPE_LEAVES:
      case GRAMME_SHAPE_INTS:
      case GRAMME_SHAPE_FLOATS:
      case GRAMME_SHAPE_FLOAT_COMPARISONS:
      case GRAMME_SHAPE_CONNECTIVES:
        break;
    }
    return ShapeKind::Float;
  }

 private:
  template <class Test>
  bool mentions(Expr e, Test&& test) const {
    return any(e, [&](Expr part) {
      return part->kind == shape::Kind::Symbol && test(guards_.symbols.at(static_cast<size_t>(part->constant))->kind);
    });
  }

  const ShapeGuards& guards_;
};

}  // namespace

std::vector<std::string> shape_kinds() { return {std::begin(kNames), std::end(kNames)}; }

bool drop(const std::string& kind) {
  const auto found = std::find(std::begin(kNames), std::end(kNames), kind);
  state->dropped = static_cast<ShapeKind>(found - std::begin(kNames));  // None after the last
  return kind.empty() || found != std::end(kNames);
}

ShapeGuards kept(ShapeGuards guards) {
  if (state->dropped == ShapeKind::None) return guards;
  const Sorter sorter(guards);
  std::erase_if(guards.conditions, [&](const auto& condition) { return sorter.of(condition) == state->dropped; });
  std::erase_if(guards.properties, [&](const auto& property) {
    if (Sorter::of(property) != state->dropped) return false;
    guards.symbols.push_back(property.source);  // becomes a free symbol, so any value passes
    return true;
  });
  return guards;
}

}  // namespace gramme::guards
