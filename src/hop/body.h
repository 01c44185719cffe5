// Traces a function that a higher-order operator takes into a graph of its own, a body.
//
//   Body body(trace, row);
//   Value* result = body.call(function, args);      // traced; what it takes from outside becomes an input
//   std::vector<Tensor*> made = body.tensors(result);
//   graph::Graph* graph = body.returns(made);       // operations go into the graph around again
//
// If the function cannot be captured, nothing is rolled back: the capture ends before the operator's call, which runs
// uncaptured.
#pragma once
#include <optional>

#include "hop/rows.h"
#include "trace/confined.h"

namespace gramme::hop {

class Body {
 public:
  Body(Trace& trace, const Row& row) : Body(trace, row, row.prefix) {}
  Body(Trace& trace, const Row& row, const char* prefix) : Body(trace, prefix, row.effects, row.floats) {}
  Body(Trace& trace, const char* prefix, Effects effects, Floats floats = Floats::Any);
  ~Body();
  Body(const Body&) = delete;

  /// An input that the operator passes: a tensor with this record.
  value::Tensor* input(const meta::Record* record, const char* label);
  /// An input that the operator passes: an int of any value.
  Value* whole_input(const char* label) { return trace_.scope().whole_input(label); }
  /// States that the operator runs the body after the graph; the body must be confined (trace/confined.h).
  void runs_later();
  /// Makes the tensors among the arguments inputs, in this order, used or not, and names them after the function's
  /// parameters.
  void operands(Value* function, const Args& args);
  /// Calls the function. An exception that it raises ends the segment.
  Value* call(Value* function, const Args& args);
  /// The tensors in a value (also in tuples, lists and dicts) that the body made, in order, without duplicates.
  std::vector<value::Tensor*> tensors(Value* result) const;
  /// Forbids writes to tensors from outside as well.
  void forbid_writes() { confined_->forbid_writes(); }
  /// True if the tensor and its bases were made in the body.
  bool is_own(const value::Tensor* tensor) const;
  /// Ends the body; the caller sets its results with graph()->returns().
  void leave();
  /// A name for those of the tensors that no variable of the program names.
  void name(const std::vector<value::Tensor*>& tensors, const char* name);
  /// Ends the segment if a tensor shares memory with another one of them, or with one that the body did not make.
  void refuse_aliases(const std::vector<value::Tensor*>& tensors) const;
  /// Ends the body; it returns a tuple of the tensors, or this tree.
  graph::Graph* returns(const std::vector<value::Tensor*>& tensors);
  graph::Graph* returns(const meta::Argument& result);
  graph::Graph* graph() const { return graph_; }

 private:
  bool made(const value::Tensor* tensor) const;

  Trace& trace_;
  graph::Graph* graph_;
  std::optional<trace::Confined> confined_;
  const bool floatless_;  // a varying float from outside becomes a constant
  bool open_ = true;
};

using meta::constant;

/// The arguments from `from` on, with all keywords.
Args rest(const Args& args, size_t from);
/// The values that the body takes from outside, as arguments of the operator.
std::vector<meta::Argument> lifted(const graph::Graph& body);
/// Makes the tensors the results of the operator's call.
void take_results(Trace& trace, graph::Node* call, const std::vector<value::Tensor*>& tensors);
/// The constant of a value; ends the segment if the value is none. Null for a null value.
PyObject* constant_of(Trace& trace, Value* value, const char* what);
/// The real function of a value, or a partial of one with constants and functions; adds guards for its identity.
PyObject* real_function(Trace& trace, Value* value, const char* what);

}  // namespace gramme::hop
