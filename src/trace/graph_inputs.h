// The inputs of a segment's graph with the real objects behind them, and the numbers that the graph computes from them.
//
//   GraphInputs inputs(root);
//   Node* x = inputs.add(source, record, object, position);   // a placeholder
//   Node* s0 = inputs.add_symbol(symbol, source, object, position);
//   inputs.symbol(symbol);                                    // s0, or the node that returns the number
//
// Nothing is taken back: placeholders that nothing uses are dropped when the segment is finished.
#pragma once
#include <unordered_map>

#include "graph/graph.h"
#include "value/value.h"

namespace gramme::trace {

class GraphInputs {
 public:
  using Objects = std::unordered_map<const graph::Node*, PyObject*>;

  explicit GraphInputs(graph::Graph& root) : root_(root) {}
  GraphInputs(const GraphInputs&) = delete;

  // ---- placeholders; the objects must live as long as the graph
  graph::Node* add(const source::Source* source, const meta::Record* record, PyObject* object,
                   const graph::Position* position);
  /// A Python number without an expression.
  graph::Node* add_number(value::Number* number, const graph::Position* position);
  /// A whole number that varies.
  graph::Node* add_symbol(shape::Expr symbol, const source::Source* source, PyObject* object,
                          const graph::Position* position);
  /// The real object behind a placeholder.
  PyObject* object(const graph::Node* placeholder) const { return objects_.at(placeholder); }
  const Objects& objects() const { return objects_; }
  value::Number* number(const graph::Node* placeholder) const { return numbers_.at(placeholder); }

  // ---- symbols
  /// Notes a node that returns the number, such as a size that comes out of data.
  void bind(shape::Expr symbol, graph::Node* node) { symbols_[symbol] = node; }
  /// The node of the number; null if there is none yet.
  graph::Node* symbol(shape::Expr symbol) const;

  // ---- what each graph computes of symbols
  /// The node of the expression in the graph; null if there is none yet.
  const meta::Argument* computed(const graph::Graph* graph, shape::Expr e) const;
  /// Notes the expression's node. Returns the first one that was noted.
  meta::Argument keep_computed(const graph::Graph* graph, shape::Expr e, const meta::Argument& argument) {
    return computed_[graph].try_emplace(e, argument).first->second;
  }

  // ---- inputs of sizes that vary
  /// Notes how the tensor was found.
  void describe(const value::Tensor* tensor) {
    if (tensor->record->symbolic) described_[tensor] = tensor->record;
  }
  /// Its description then; null for tensors of fixed sizes.
  const meta::Record* described(const value::Tensor* tensor) const;

 private:
  graph::Graph& root_;
  Objects objects_;
  std::unordered_map<const graph::Node*, value::Number*> numbers_;
  std::unordered_map<shape::Expr, graph::Node*> symbols_;
  std::unordered_map<const graph::Graph*, std::unordered_map<shape::Expr, meta::Argument>> computed_;
  std::unordered_map<const value::Tensor*, const meta::Record*> described_;
};

}  // namespace gramme::trace
