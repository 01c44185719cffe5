#include "native/from_graph.h"

#include "base/error.h"
#include "graph/names.h"

namespace gramme::native {
namespace {

using graph::Node;
using meta::Argument;

class Conversion {
 public:
  explicit Conversion(const graph::Graph& graph) : graph_(graph), names_(graph::assign_names(graph)) {}

  Program run() {
    values_.assign(names_.node.size(), -1);
    program_.steps.reserve(graph_.length());
    for (const Node* node : graph_.placeholders()) {
      values_[node->id] = program_.inputs++;
      program_.symbols.push_back(node->symbol != nullptr);
      program_.any_sizes |= node->record && node->record->symbolic;
    }
    for (const Node* node : graph_.nodes()) {
      program_.any_sizes |= node->record && node->record->symbolic;
      program_.steps.push_back(step(*node));
      values_[node->id] = program_.result(program_.steps.size() - 1);
    }
    program_.output.kind = Operand::Tuple;
    for (const Node* node : graph_.outputs) program_.output.items.push_back(value(node));
    program_.find_last_uses();
    return std::move(program_);
  }

 private:
  Step step(const Node& node) {
    Step step;
    step.kind = node.kind == Node::CallMethod ? Step::Method : Step::Function;
    step.target = share(node.call.target);
    for (uint32_t i = 0; i < node.call.arg_count; ++i) step.arguments.push_back(operand(node.call.args[i]));
    for (uint32_t i = 0; i < node.call.keyword_count; ++i)
      step.keywords.emplace_back(share(node.call.keyword_names[i]), operand(node.call.keyword_args[i]));
    step.name = names_.node[node.id];
    step.where = where(node.position);
    return step;
  }

  static std::string where(const graph::Position* position) {
    if (!position) return {};
    PyCodeObject* code = position->code;
    const int line = PyCode_Addr2Line(code, position->unit * static_cast<int>(sizeof(_Py_CODEUNIT)));
    return std::string(PyUnicode_AsUTF8(code->co_filename)) + ":" + std::to_string(line) + " in " +
           PyUnicode_AsUTF8(code->co_qualname);
  }

  Operand value(const Node* node) const {
    Operand operand;
    operand.kind = Operand::Value;
    operand.value = values_[node->id];
    if (operand.value < 0) GRAMME_BUG("a node is used before it is made");
    return operand;
  }

  Operand operand(const Argument& argument) const {
    if (argument.kind == Argument::Tensor || argument.kind == Argument::Number) return value(argument.node);
    Operand operand;
    operand.object = share(argument.object);
    for (uint32_t i = 0; i < argument.count; ++i) operand.items.push_back(this->operand(argument.items[i]));
    operand.kind = kind(argument.kind);
    return operand;
  }

  static Operand::Kind kind(Argument::Kind kind) {
    switch (kind) {
      case Argument::Tuple:
        return Operand::Tuple;
      case Argument::List:
        return Operand::List;
      case Argument::Dict:
        return Operand::Dict;
      case Argument::Slice:
        return Operand::Slice;
      default:
        return Operand::Constant;
    }
  }

  const graph::Graph& graph_;
  graph::Names names_;
  std::vector<ValueId> values_;  // by the node's id
  Program program_;
};

}  // namespace

Program from_graph(const graph::Graph& graph) { return Conversion(graph).run(); }

}  // namespace gramme::native
