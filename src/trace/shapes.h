// Sizes, strides, offsets and ints that vary: symbols with their sources, and what the capture decided by them.
//
// A decision is taken by what the symbols are now, and is a guard from then on, unless it follows from those before.
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
  bool general = false;  // nothing becomes a number: the segment ends first

  /// What the source reads from now on is a symbol; `now` is its value, by which nothing is decided if it is unbacked.
  shape::Expr add(const source::Source* source, shape::Range range, int64_t now, bool unbacked = false);
  /// The record of a tensor at a source, whose sizes are expressions where `sizes` is not null.
  const meta::Record* describe(const meta::Record* record, const std::vector<shape::Expr>& sizes,
                               const source::Source* tensor, source::Pool& pool);
  /// A new symbol whose value comes out of data, at a place of the program.
  shape::Expr add_unbacked(shape::Range range, const graph::Position* made);
  /// The source of a symbol; null if its value comes out of data.
  const source::Source* source_of(shape::Expr symbol) const;
  /// True if it is computed of what comes out of data.
  bool is_of_data(shape::Expr e) const;
  /// What a symbol with a source is.
  int64_t now(shape::Expr symbol) const { return now_.at(static_cast<size_t>(symbol->constant)).value(); }
  /// An earlier symbol whose value is now this; null if there is none.
  shape::Expr equal_now(int64_t value) const;

  /// The Bool is true from now on, which it is now.
  void learn(shape::Expr e, const graph::Position* asked);
  /// The graph checks it when it runs.
  void assume(shape::Expr e);
  /// True if the Bool is true. Ends the segment if only data can tell.
  bool decide(shape::Expr e, const graph::Position* asked);
  /// What it is now, from now on.
  int64_t fix(shape::Expr e, const graph::Position* asked);

  /// The program wants the size to vary.
  void insist(const source::Source* size) { insisted_.push_back(size); }
  /// Why it does not: what was decided, and where; empty if the program does not mind.
  std::string violation(const source::Source* size) const;
  std::string print(shape::Expr e) const;
  bool empty() const { return symbols_.empty(); }
  /// The same under what was learnt.
  shape::SymInt simplified(shape::SymInt number);
  const meta::Record* simplified(const meta::Record* record);
  /// A size or int that can be one number only; `needed`: the program took it for a number, and did not just compare
  /// it.
  struct Fixed {
    const source::Source* source;
    bool needed;
  };
  std::vector<Fixed> fixed();
  /// Sizes that are one now, and are not known to stay it.
  std::vector<const source::Source*> ones() const;
  /// What the segment's guards say.
  guards::ShapeGuards guards() const;

 private:
  [[noreturn]] void refuse(Reason reason, shape::Expr e, const char* what) const;
  void refuse_general() const;
  void fix_symbols(shape::Expr e, const graph::Position* asked);

  struct Decision {
    shape::Expr holds;
    const graph::Position* asked;
  };
  std::vector<const source::Source*> symbols_;       // null: out of data
  std::vector<std::optional<int64_t>> now_;          // none: likewise
  std::vector<const graph::Position*> unbacked_at_;  // by symbol out of data
  std::vector<guards::ShapeGuards::Property> properties_;
  std::vector<Decision> decisions_;
  std::vector<shape::Expr> needed_;  // as numbers
  std::vector<const source::Source*> insisted_;
  std::unordered_map<const meta::Record*, const meta::Record*> simplified_;  // under what was learnt so far
};

/// Calls `visit` with each symbol of the expression, from the left.
template <class Visit>
void each_symbol(shape::Expr e, Visit&& visit) {
  if (e->kind == shape::Kind::Symbol) visit(e);
  for (const shape::Operand& operand : e->operands) each_symbol(operand.of, visit);
}

/// Which sizes and strides a record leaves open, as aten::with_varying takes them.
uint64_t varying(const std::vector<shape::SymInt>& numbers);

}  // namespace gramme::trace
