// Placeholders are made in the order in which the program comes to its inputs.
#include "trace/graph_inputs.h"

namespace gramme::trace {

graph::Node* GraphInputs::add(const source::Source* source, const meta::Record* record, PyObject* object,
                              const graph::Position* position) {
  graph::Node* made = root_.placeholder(source, record, position);
  objects_[made] = object;
  return made;
}

graph::Node* GraphInputs::add_number(value::Number* number, const graph::Position* position) {
  graph::Node* made = add(number->source, nullptr, number->object, position);
  made->number_type = number->type;
  numbers_[made] = number;
  return made;
}

graph::Node* GraphInputs::add_symbol(shape::Expr symbol, const source::Source* source, PyObject* object,
                                     const graph::Position* position) {
  graph::Node* made = add(source, nullptr, object, position);
  made->number_type = &PyLong_Type;
  made->symbol = symbol;
  bind(symbol, made);
  return made;
}

graph::Node* GraphInputs::symbol(shape::Expr symbol) const {
  const auto known = symbols_.find(symbol);
  return known == symbols_.end() ? nullptr : known->second;
}

const meta::Argument* GraphInputs::computed(const graph::Graph* graph, shape::Expr e) const {
  const auto of_graph = computed_.find(graph);
  if (of_graph == computed_.end()) return nullptr;
  const auto known = of_graph->second.find(e);
  return known == of_graph->second.end() ? nullptr : &known->second;
}

const meta::Record* GraphInputs::described(const value::Tensor* tensor) const {
  const auto known = described_.find(tensor);
  return known == described_.end() ? nullptr : known->second;
}

}  // namespace gramme::trace
