// Guards on varying sizes and ints of a call, and the numbers that graph and replay need from them.
//
// A symbol of a capture has one source, from which a later call takes its value. Every other varying size, stride or
// offset must equal an expression of symbols.
#pragma once
#include <string>
#include <vector>

#include "shape/expression.h"
#include "shape/range.h"
#include "source/source.h"

namespace gramme::guards {

/// The names of symbols with these sources in printed expressions: "L['x'].size()[0]", or "u0" for the first without a
/// source.
std::vector<std::string> names_of(const std::vector<const source::Source*>& symbols);

struct ShapeGuards {
  /// By symbol: SizeOf, StrideOf or OffsetOf of a tensor, or the source of an int. Null for data-dependent symbols,
  /// which guards never mention.
  std::vector<const source::Source*> symbols;
  /// A tensor's number that must equal an expression.
  struct Property {
    const source::Source* source;
    shape::Expr value;
  };
  std::vector<Property> properties;
  /// A condition that the capture decided.
  struct Condition {
    shape::Expr holds;
    std::string place;  // "model.py:88": the line that asked; empty if none did
    /// " (model.py:88)"
    std::string remark() const { return place.empty() ? "" : " (" + place + ")"; }
  };
  std::vector<Condition> conditions;
  /// Ints and bools that are computed once all conditions hold.
  std::vector<shape::Expr> numbers;

  bool empty() const { return symbols.empty() && properties.empty() && conditions.empty() && numbers.empty(); }
  /// By symbol: the range outside which no value passes.
  std::vector<shape::Range> ranges() const;
  /// The names of all symbols in printed expressions: "L['x'].size()[0]".
  std::vector<std::string> names() const { return names_of(symbols); }
  /// Properties and conditions: "L['x'].stride()[0] == 2*L['x'].size()[1]", "L['x'].size()[0] <= 512 (model.py:88)".
  std::vector<std::string> print() const;
};

}  // namespace gramme::guards
