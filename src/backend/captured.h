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
  /// Where the inputs come from: a list of rows (kind, row of the base or -1, key or None, index, type of the object or
  /// None), a base before its children, and a list with the row of each input.
  Owned<> sources() const;
  /// A list by symbol: (index of the input that has its value, value now, lowest, highest, may nothing be decided by
  /// it?), bounds None if there are none. None for symbols that are no inputs.
  Owned<> symbols();
  /// A list with (sizes, strides, offset) for each tensor input whose sizes vary, lists of what Python computes of
  /// `values`, which has an object for each symbol; None for the other inputs. Where Python cannot, the symbols become
  /// constants.
  Owned<> sizes(PyObject* values);
  /// Where each symbol comes from, as sources() says it of inputs; None for those that come out of data.
  Owned<> symbol_sources() const;
  /// Tensors and constants that the capture looked at, and is bound to, as sources() says it of inputs.
  Owned<> guarded_sources() const;
  /// A list of (what Python computes of `values` for a condition that the capture decided by, the program's place or
  /// "", the condition in words). None for what Python has no operator for.
  Owned<> conditions(PyObject* values) const;
  /// (why the segment ends before the function returns or None, file, line, function).
  Owned<> reason() const;
  /// What the graph's nodes give; may be asked after the backend has returned.
  Examples examples() const;

  /// A list of (holder, name): constants that a backward of the program reads in gradients' own time, under names that
  /// may hold others by then; the name is None for a cell.
  Owned<> names_read_later() const;
  /// Places of inputs and of outputs that hooks read when gradients are computed.
  Owned<> places_read_later() const;

  /// What logs, metadata and the compiler call it.
  const plan::CompileId& compile_id() const { return compile_id_; }
  /// Which attempt at the capture it is: one that breaks is the second, up to where the first could not go on.
  int attempt() const { return is_break(*subject_.ending) ? 1 : 0; }

  /// The input is part of the compiled code: the segment is for this very object.
  void freeze(size_t input) { frozen_.push_back(input); }
  const std::vector<size_t>& frozen() const { return frozen_; }
  /// The compiled code is for calls where these, expressions of sympy, hold. `names` has the numbers of symbols by
  /// their names. What cannot be said makes the symbols in it constants.
  void require(PyObject* expressions, PyObject* names);
  /// The same of the symbol not being less, not being more; None if it may.
  void require_range(int64_t symbol, PyObject* lowest, PyObject* highest);
  const std::vector<guards::ShapeGuards::Condition>& conditions() const { return conditions_; }
  /// The compiler cannot take the symbol: the graph is needed with a constant instead.
  void specialize(int64_t symbol);
  const std::vector<const source::Source*>& constants() const { return constants_; }
  /// A new attempt: what was told before is forgotten.
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
