// The object that a backend gets beside a graph: facts to ask for while it compiles, and demands to make on the
// capture.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "backend/examples.h"
#include "backend/handed_over.h"
#include "base/ref.h"
#include "guards/shapes.h"
#include "plan/guard_plan.h"
#include "plan/segment.h"
#include "shape/assumptions.h"

namespace gramme::backend {

/// Why a segment ends: the reason, and what of the program it is about.
std::string full_reason(const plan::Ending& ending);

/// True if the user may want to do something about the end.
inline bool is_break(const plan::Ending& ending) { return !ending.file.empty() && !ending.raises; }

/// (rows of gramme._sources, the row of each source).
Owned<> source_rows(const plan::GuardDescription& guards, const std::vector<const source::Source*>& sources);

class Captured {
 public:
  /// Refers to all of these until closed.
  struct Subject {
    const graph::Graph* graph;
    const HandedOver* record;
    const CallInputs* inputs;
    const plan::GuardDescription* guards;
    const plan::Ending* ending;
  };
  Captured(const Subject& subject, plan::CompileId compile_id) : subject_(subject), compile_id_(compile_id) {}
  /// The call of the backend is over: nothing can be asked any more.
  void close() { subject_ = {}; }
  const graph::Graph& graph() const;

  /// True if an int or float is an input of the graph and no symbol.
  bool has_numbers() const;
  /// True if a size, stride, offset or int is an input that is a symbol.
  bool has_symbols() const;
  /// True if the graph takes numbers or sizes out of data.
  bool has_unbacked() const { return record().has_unbacked; }
  bool writes_inputs() const { return record().writes_inputs; }
  /// True if an input is written whose memory other inputs share.
  bool has_aliased_writes() const;
  /// True if the graph uses an input that it writes to, other than to write it.
  bool uses_what_it_writes() const;
  /// True if autograd may record one of the graph's operations.
  bool records_gradients() const;
  /// The sources of the inputs: a list of rows (kind, row of the base or -1, key or None, index, type of the object or
  /// None), each base before its children, and a list with each input's row.
  Owned<> sources() const;
  /// A list by symbol: (index of the input with its value, present value, lowest, highest, whether no branch may depend
  /// on it); None for a missing bound, and for symbols that are no inputs.
  Owned<> symbols();
  /// A list with (sizes, strides, offset, parts) for each tensor input whose sizes vary: lists that Python's operators
  /// compute from `values`, one object for each symbol, and such a list for the tensors inside a wrapper. None for
  /// other inputs. Symbols in an expression without Python operators become constants.
  Owned<> sizes(PyObject* values);
  /// The sources of the symbols, in the form of sources(); None for unbacked symbols.
  Owned<> symbol_sources() const;
  /// The sources of tensors and constants that the guards check, in the form of sources().
  Owned<> guarded_sources() const;
  /// A list of the conditions that the capture branched on: (result computed by Python from `values`, place in the
  /// program or "", text). The result is None if Python has no operator for it.
  Owned<> conditions(PyObject* values) const;
  /// (why the segment ends before the function returns or None, file, line, function).
  Owned<> reason() const;
  /// Fake results of the graph's nodes, which may be used after the backend has returned.
  Examples examples() const;

  /// A list of (holder, name): constants that a backward of the program reads when it runs, under names that may be
  /// rebound by then. The name is None for a cell.
  Owned<> names_read_later() const;
  /// Indices of the inputs and of the outputs that hooks read during backward.
  Owned<> places_read_later() const;

  /// The id of the capture in logs, metadata and the compiler.
  const plan::CompileId& compile_id() const { return compile_id_; }
  /// The attempt's number: a capture with a graph break is the second attempt, which stops where the first failed.
  int attempt() const { return is_break(*subject_.ending) ? 1 : 0; }

  /// States that the input is part of the compiled code: the segment then requires this very object.
  void freeze(size_t input) { frozen_.push_back(input); }
  const std::vector<size_t>& frozen() const { return frozen_; }
  /// States that the compiled code is valid only if these sympy expressions hold. `names` maps names of symbols to
  /// their numbers. Symbols in an expression that cannot be translated become constants.
  void require(PyObject* expressions, PyObject* names);
  /// The same for bounds of a symbol; None for no bound.
  void require_range(int64_t symbol, PyObject* lowest, PyObject* highest);
  const std::vector<guards::ShapeGuards::Condition>& conditions() const { return conditions_; }
  /// States that the compiler cannot take the symbol: the capture restarts with a constant.
  void specialize(int64_t symbol);
  const std::vector<const source::Source*>& constants() const { return constants_; }
  /// Starts a new attempt: earlier statements are forgotten.
  void restart();

 private:
  const HandedOver& record() const;
  const CallInputs& inputs() const;
  const plan::GuardDescription& guards() const;
  const std::vector<graph::Node*>& placeholders() const { return graph().placeholders(); }
  shape::Assumptions& known();
  void require(shape::Expr condition);
  void fix(const meta::Record& record);

  Subject subject_;
  plan::CompileId compile_id_;
  std::vector<size_t> frozen_;
  std::vector<guards::ShapeGuards::Condition> conditions_;
  std::vector<const source::Source*> constants_;
  std::optional<shape::Assumptions> known_;  // by the segment's conditions and those required so far
};

}  // namespace gramme::backend
