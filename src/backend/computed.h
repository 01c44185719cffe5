// Computes expressions over a capture's symbols from Python objects that stand for the symbols: ints, or torch.SymInts
// of a backend's ShapeEnv.
#pragma once
#include <unordered_map>
#include <vector>

#include "base/ref.h"
#include "shape/lower.h"
#include "shape/symint.h"

namespace gramme::backend {

class Computed {
 public:
  /// `symbols` is a list by symbol, with None for those that do not occur.
  explicit Computed(PyObject* symbols) : symbols_(share(symbols)) {}

  /// The expression's value, borrowed while this object lives; null if Python has no operator for a part of it.
  PyObject* of(shape::Expr e) { return shape::Lowering(*this).lower(e); }
  PyObject* of(shape::SymInt number) { return of(number.expr()); }
  /// A new list of their values; null if one cannot be computed.
  Owned<> list(const std::vector<shape::SymInt>& numbers);

  // The machine for shape::Lowering.
  using Value = PyObject*;
  const Value* known(shape::Expr e) const;
  Value keep(shape::Expr e, Value value) { return known_[e] = value; }
  Value leaf(shape::Expr e);
  Value compute(shape::Operation operation, Value a, Value b);

 private:
  Value made(Owned<> value);

  Owned<> symbols_;
  std::unordered_map<shape::Expr, Value> known_;
  std::vector<Owned<>> made_;
};

}  // namespace gramme::backend
