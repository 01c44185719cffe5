// What the sizes and ints of a call must satisfy, where they vary; and what graph and replay need of them.
//
// A symbol of a capture has one source, from which a later call takes its value. Every other size, stride or offset
// that is not compared as a number is that of an expression.
#pragma once
#include <string>
#include <vector>

#include "shape/expression.h"
#include "shape/range.h"
#include "source/source.h"

namespace gramme::guards {

/// How expressions call symbols with these sources: "L['x'].size()[0]"; "u0" for the first that has none.
std::vector<std::string> names_of(const std::vector<const source::Source*>& symbols);

struct ShapeGuards {
  /// By symbol: SizeOf, StrideOf or OffsetOf of a tensor, or the source of an int; null for what comes out of data,
  /// which no guard is about.
  std::vector<const source::Source*> symbols;
  /// A number of a tensor that must be the value of an expression.
  struct Property {
    const source::Source* source;
    shape::Expr value;
  };
  std::vector<Property> properties;
  /// What the capture decided by.
  struct Condition {
    shape::Expr holds;
    std::string place;  // "model.py:88": where the program asked; empty if it did not
    /// " (model.py:88)"
    std::string remark() const { return place.empty() ? "" : " (" + place + ")"; }
  };
  std::vector<Condition> conditions;
  /// Ints and bools that are read when all of it holds.
  std::vector<shape::Expr> numbers;

  bool empty() const { return symbols.empty() && properties.empty() && conditions.empty() && numbers.empty(); }
  /// By symbol: no value outside passes.
  std::vector<shape::Range> ranges() const;
  /// How expressions call each symbol: "L['x'].size()[0]".
  std::vector<std::string> names() const { return names_of(symbols); }
  /// Properties and conditions: "L['x'].stride()[0] == 2*L['x'].size()[1]", "L['x'].size()[0] <= 512 (model.py:88)".
  std::vector<std::string> print() const;
};

}  // namespace gramme::guards
