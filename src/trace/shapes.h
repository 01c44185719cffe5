// Varying sizes, strides, offsets and ints: symbols with their sources, and the conditions that the capture decided.
//
// A condition is decided by the symbols' present values. It becomes a guard unless earlier ones imply it.
#pragma once
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "aten/spec.h"
#include "base/error.h"
#include "graph/graph.h"
#include "guards/shapes.h"
#include "meta/record.h"
#include "shape/assumptions.h"
#include "source/source.h"

namespace gramme::trace {

class Shapes {
 public:
  shape::Assumptions assumptions;
  bool general = false;  // the segment ends before a symbol would become a constant

  /// A new symbol for the number at a source; `now` is its present value, which decides nothing if the symbol is
  /// unbacked.
  shape::Expr add(const source::Source* source, shape::Range range, int64_t now, bool unbacked = false);
  /// The record of a tensor at a source with expressions for its sizes where `sizes` is not null.
  const meta::Record* describe(const meta::Record* record, const std::vector<shape::Expr>& sizes,
                               const source::Source* tensor, source::Pool& pool);
  /// A new symbol for a data-dependent value, made at a position of the program.
  shape::Expr add_unbacked(shape::Range range, const graph::Position* made);
  /// The source of a symbol; null for a data-dependent one.
  const source::Source* source_of(shape::Expr symbol) const;
  /// True if the expression contains data-dependent symbols.
  bool is_of_data(shape::Expr e) const;
  /// The present value of a symbol with a source.
  int64_t now(shape::Expr symbol) const { return now_.at(static_cast<size_t>(symbol->constant)).value(); }
  /// An earlier symbol with this present value; null if there is none.
  shape::Expr equal_now(int64_t value) const;

  /// Guards a condition that is true at present.
  void learn(shape::Expr e, const graph::Position* asked);
  /// Assumes a condition that the graph checks when it runs.
  void assume(shape::Expr e);
  /// Decides a condition, and guards the answer. Ends the segment if it depends on data.
  bool decide(shape::Expr e, const graph::Position* asked);
  /// The expression's present value, which is guarded.
  int64_t fix(shape::Expr e, const graph::Position* asked);

  /// Notes that the program demands that the size varies.
  void insist(const source::Source* size) { insisted_.push_back(size); }
  /// The error text if a size of insist() does not vary: which conditions fixed it, and where. Empty for other sizes.
  std::string violation(const source::Source* size) const;
  std::string print(shape::Expr e) const;
  bool empty() const { return symbols_.empty(); }
  /// The number simplified by the conditions learnt.
  shape::SymInt simplified(shape::SymInt number);
  const meta::Record* simplified(const meta::Record* record);
  /// A size or int that the conditions fix to one value. `needed`: the program used the value, not just compared it.
  struct Fixed {
    const source::Source* source;
    bool needed;
  };
  std::vector<Fixed> fixed();
  /// Sizes that are 1 at present.
  std::vector<const source::Source*> ones() const;
  /// The guards on symbols.
  guards::ShapeGuards guards() const;

 private:
  [[noreturn]] void refuse(Reason reason, shape::Expr e, const char* what) const;
  void refuse_general() const;
  void fix_symbols(shape::Expr e, const graph::Position* asked);

  struct Decision {
    shape::Expr holds;
    const graph::Position* asked;
  };
  std::vector<const source::Source*> symbols_;       // null: data-dependent
  std::vector<std::optional<int64_t>> now_;          // nullopt: data-dependent
  std::vector<const graph::Position*> unbacked_at_;  // by data-dependent symbol
  std::vector<guards::ShapeGuards::Property> properties_;
  std::vector<Decision> decisions_;
  std::vector<shape::Expr> needed_;  // expressions fixed by the program
  std::vector<const source::Source*> insisted_;
  std::unordered_map<const meta::Record*, const meta::Record*> simplified_;  // under what was learnt so far
};

/// Calls `visit` with each symbol of the expression, left to right.
template <class Visit>
void each_symbol(shape::Expr e, Visit&& visit) {
  if (e->kind == shape::Kind::Symbol) visit(e);
  for (const shape::Operand& operand : e->operands) each_symbol(operand.of, visit);
}

/// A bit mask of the numbers that are expressions, as aten::with_varying takes it.
uint64_t varying(const std::vector<shape::SymInt>& numbers);

}  // namespace gramme::trace
