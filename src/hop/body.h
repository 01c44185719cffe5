// Traces a function that an operator runs into a graph of its own.
//
//   Body body(trace, row);
//   Value* result = body.call(function, args);      // traced; what it takes from outside becomes an input
//   std::vector<Tensor*> made = body.tensors(result);
//   graph::Graph* graph = body.returns(made);       // operations go into the graph around again
//
// Nothing is put back where it cannot be captured: the capture ends before the operator's call, which is made for real.
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

  /// An input that the operator gives, whatever is outside: a tensor as the record says.
  value::Tensor* input(const meta::Record* record, const char* label);
  /// Likewise, any whole number.
  Value* whole_input(const char* label) { return trace_.scope().whole_input(label); }
  /// The operator runs it some time after the graph: of a body that may have no effects (trace/confined.h).
  void runs_later();
  /// The tensors among the values are inputs, in this order, used or not; they are called as the function calls them.
  void operands(Value* function, const Args& args);
  /// What the function returns. An exception that leaves it ends the segment.
  Value* call(Value* function, const Args& args);
  /// The tensors in a value that the body made, in order, each once: those in tuples, lists and dicts.
  std::vector<value::Tensor*> tensors(Value* result) const;
  /// Nor may the function write to a tensor from outside.
  void forbid_writes() { confined_->forbid_writes(); }
  /// True if the tensor was made in the body, with all that has its memory.
  bool is_own(const value::Tensor* tensor) const;
  /// Operations go into the graph around again; what the body returns is for graph()->returns() to say.
  void leave();
  /// What those of the tensors are called that no variable of the program has named.
  void name(const std::vector<value::Tensor*>& tensors, const char* name);
  /// Ends the segment if one of the tensors shares memory with another, or with one that the body did not make.
  void refuse_aliases(const std::vector<value::Tensor*>& tensors) const;
  /// Ends the body, which returns a tuple of the tensors, or any tree.
  graph::Graph* returns(const std::vector<value::Tensor*>& tensors);
  graph::Graph* returns(const meta::Argument& result);
  graph::Graph* graph() const { return graph_; }

 private:
  bool made(const value::Tensor* tensor) const;

  Trace& trace_;
  graph::Graph* graph_;
  std::optional<trace::Confined> confined_;
  const bool floatless_;  // floats that vary are constants to it
  bool open_ = true;
};

using meta::constant;

/// Arguments from `from` on, with all keywords.
Args rest(const Args& args, size_t from);
/// What the body takes from outside, as the operator's arguments.
std::vector<meta::Argument> lifted(const graph::Graph& body);
/// The tensors are what the operator's call gives from now on.
void take_results(Trace& trace, graph::Node* call, const std::vector<value::Tensor*>& tensors);
/// A bool, a str or another constant; ends the segment if it is none. Null if there is no such value.
PyObject* constant_of(Trace& trace, Value* value, const char* what);
/// A real function, or a partial of one over constants and functions, that does what the value does: now guarded.
PyObject* real_function(Trace& trace, Value* value, const char* what);

}  // namespace gramme::hop
