// Converts nodes to steps. Bodies that run exactly once in place are inlined; other bodies become programs of their
// own.
#include "native/from_graph.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "base/imported.h"
#include "base/once.h"
#include "graph/names.h"
#include "graph/place.h"
#include "passes/bind_python.h"
#include "torch/names.h"

namespace gramme::native {
namespace {

using graph::Node;
using meta::Argument;

class Conversion {
 public:
  /// `repeated`: one call runs the graph several times, on tensors that may differ.
  Conversion(const graph::Graph& graph, PyObject* module, const graph::Names* around, bool repeated,
             const Settings& settings)
      : graph_(graph),
        module_(module),
        names_(graph::assign_names(graph, around)),
        repeated_(repeated),
        settings_(settings) {}

  Program run() {
    program_.steps.reserve(graph_.length());
    for (const Node* node : graph_.placeholders()) {
      values_[node] = program_.inputs++;
      program_.symbols.push_back(node->symbol != nullptr);
      program_.fixed.push_back(node->record && !node->record->symbolic);
      program_.any_sizes |= node->record && node->record->symbolic;
    }
    add(graph_, names_, module_, -1);
    if (graph_.around()) {
      program_.output = operand(graph_.result());
    } else {
      program_.output.kind = Operand::Tuple;
      for (const Node* node : graph_.outputs) program_.output.items.push_back(value(node));
    }
    program_.find_last_uses();
    return std::move(program_);
  }

 private:
  /// Adds the steps of a graph. `module` is its graph module; `place` belongs to the node that runs it.
  void add(const graph::Graph& graph, const graph::Names& names, PyObject* module, int32_t place) {
    note_items(graph);
    for (size_t i = 0; i < graph.nodes().size(); ++i) {
      const Node* node = graph.nodes()[i];
      place_ = place < 0 ? static_cast<int32_t>(i) : place;
      program_.any_sizes |= node->record && node->record->symbolic;
      program_.wraps |= node->record && node->record->context;
      if (node->kind == Node::Body) {
        modules_[node] = take(PyObject_GetAttrString(module, node->body->name().c_str()));
      } else if (node->kind == Node::Attribute) {
        modules_[node] = share(node->object);
      } else if (const Node* body = runs_once(*node)) {
        add_body(*node, *body, names);
      } else if (const ValueId* result = result_of_body(*node)) {
        values_[node] = *result;
      } else {
        Owned<> own = own_target(*node);
        if (own) make_programs(*node, names, own);
        if (is_checkpoint(*node)) make_block(*node, names);
        program_.steps.push_back(step(*node, names));
        if (own) program_.steps.back().target = std::move(own);
        values_[node] = program_.result(program_.steps.size() - 1);
      }
    }
  }

  static const Node* indexed_list(const Node& node) {
    PyObject* const getitem = once([] { return imported("operator", "getitem").release(); });
    const bool is_item = node.kind == Node::CallFunction && node.call.target == getitem && node.call.arg_count == 2;
    const Node* whole = is_item ? node.call.args[0].node : nullptr;
    return whole && !whole->record ? whole : nullptr;
  }

  /// Notes the records of list items, since lists themselves have none.
  void note_items(const graph::Graph& graph) {
    for (size_t i = graph.nodes().size(); i-- > 0;) {
      const Node* list = indexed_list(*graph.nodes()[i]);
      if (!list) continue;
      const Sizes sizes = sizes_of(*graph.nodes()[i]);
      const auto [known, first] = items_.emplace(list, sizes);
      if (!first && known->second != sizes)
        known->second = known->second == Sizes::Vary || sizes == Sizes::Vary ? Sizes::Vary : Sizes::Unknown;
    }
  }

  Sizes sizes_of(const Node& node) const {
    if (node.record) return node.record->symbolic ? Sizes::Vary : Sizes::Fixed;
    const auto items = items_.find(&node);
    return items == items_.end() ? Sizes::Unknown : items->second;
  }

  /// The body, if running it once is all that the call does, and nothing else runs it.
  static const Node* runs_once(const Node& call) {
    const Node* found = nullptr;
    for (uint32_t i = 0; i < call.call.arg_count; ++i) {
      const Argument& argument = call.call.args[i];
      if (argument.kind == Argument::Body) found = !found && runs_in_place(*argument.node) ? argument.node : nullptr;
    }
    return found;
  }

  /// gramme's own Python function for the operator; null if PyTorch's is used.
  static Owned<> own_target(const Node& node) {
    const meta::Call& call = node.call;
    const bool runs = std::any_of(call.args, call.args + call.arg_count,
                                  [](const Argument& argument) { return argument.kind == Argument::Body; });
    if (!runs) return {};
    Owned<> known = imported("gramme._control", "OWN");
    return share(PyDict_GetItemWithError(known.get(), call.target));
  }

  /// Makes programs of the bodies among the call's arguments.
  void make_programs(const Node& call, const graph::Names& names, const Owned<>& target) {
    const bool repeated = repeated_ || target.get() != imported("gramme._control", "cond").get();
    for (uint32_t i = 0; i < call.call.arg_count; ++i) {
      if (call.call.args[i].kind != Argument::Body) continue;
      Owned<>& module = modules_.at(call.call.args[i].node);
      Program program = Conversion(*call.call.args[i].node->body, module.get(), &names, repeated, settings_).run();
      module = make_executor(std::move(program), {repeated ? Trust::Unguarded : Trust::Guarded, settings_.cached});
    }
  }

  static bool is_checkpoint(const Node& node) {
    return node.kind == Node::CallFunction && node.call.target == of_torch::object(of_torch::TagActivationCheckpoint);
  }

  /// True if a backward calls the body again, and then differentiates it in a pass of its own.
  static bool is_reentrant(const Node& call) {
    for (uint32_t i = 0; i < call.call.keyword_count; ++i)
      if (PyUnicode_CompareWithASCIIString(call.call.keyword_names[i], "use_reentrant") == 0)
        return call.call.keyword_args[i].object != Py_False;
    return true;
  }

  /// Makes a program of the checkpointed body, which several calls may share.
  void make_block(const Node& call, const graph::Names& names) {
    PyObject* const block = once([] { return imported("gramme._higher_order", "Block").release(); });
    Owned<>& module = modules_.at(call.call.args[0].node);
    if (is_block(module.get())) return;
    Program program = Conversion(*call.call.args[0].node->body, module.get(), &names, true, settings_).run();
    Owned<> executor = make_executor(std::move(program),
                                     {Trust::Unguarded, settings_.cached, settings_.backward, !is_reentrant(call)});
    module = take(PyObject_CallFunctionObjArgs(block, module.get(), executor.get(), nullptr));
    program_.blocks.push_back(std::move(executor));
  }

  static bool runs_in_place(const Node& node) { return node.body && node.body->in_place; }

  /// Adds the body's steps in place of the call.
  void add_body(const Node& call, const Node& body, const graph::Names& around) {
    const auto& inputs = body.body->placeholders();
    const Argument* lifted = call.call.args + call.call.arg_count - inputs.size();  // where several calls run the body
    for (size_t i = 0; i < inputs.size(); ++i)
      values_[inputs[i]] = values_.at(body.body->shared ? lifted[i].node : inputs[i]->outer);
    add(*body.body, graph::assign_names(*body.body, &around), modules_.at(&body).get(), place_);
    std::vector<ValueId>& results = results_[&call];
    for (uint32_t i = 0; i < body.body->result().count; ++i)
      results.push_back(values_.at(body.body->result().items[i].node));
  }

  /// The value of `call[i]` for a call whose body was inlined.
  const ValueId* result_of_body(const Node& node) const {
    const bool two = node.kind == Node::CallFunction && node.call.arg_count == 2 && node.call.args[0].node;
    auto results = two ? results_.find(node.call.args[0].node) : results_.end();
    if (results == results_.end()) return nullptr;
    return &results->second[PyLong_AsSize_t(node.call.args[1].object)];
  }

  Step step(const Node& node, const graph::Names& names) {
    Step step;
    step.kind = node.kind == Node::CallMethod ? Step::Method : Step::Function;
    step.target = called(node.call.target);
    for (uint32_t i = 0; i < node.call.arg_count; ++i) step.arguments.push_back(operand(node.call.args[i]));
    for (uint32_t i = 0; i < node.call.keyword_count; ++i)
      step.keywords.emplace_back(share(node.call.keyword_names[i]), operand(node.call.keyword_args[i]));
    step.name = names.node[node.id];
    step.where = where(node.position);
    step.sizes = sizes_of(node);
    step.node = place_;
    return step;
  }

  /// The object to call for an operator that takes functions.
  static Owned<> called(PyObject* target) {
    PyTypeObject* const higher_order = of_torch::type(of_torch::HigherOrderOperator);
    if (!PyObject_TypeCheck(target, higher_order)) return share(target);
    PyObject* const called = once([] { return imported("gramme._higher_order", "called").release(); });
    return take(PyObject_CallOneArg(called, target));
  }

  static std::string where(const graph::Position* position) {
    if (!position) return {};
    return graph::place(position) + " in " + PyUnicode_AsUTF8(position->code->co_qualname);
  }

  Operand value(const Node* node) const {
    Operand operand;
    operand.kind = Operand::Value;
    operand.value = values_.at(node);
    return operand;
  }

  Operand operand(const Argument& argument) const {
    if (argument.kind == Argument::Tensor || argument.kind == Argument::Number) return value(argument.node);
    Operand operand;
    operand.object = argument.kind == Argument::Body ? modules_.at(argument.node) : share(argument.object);
    if (operand.object && is_executor(operand.object.get())) operand.graph = call_graph;
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
      case Argument::Constant:
      case Argument::Body:  // the body's graph module
        return Operand::Constant;
      case Argument::Tensor:
      case Argument::Number:
        break;
    }
    GRAMME_BUG("a value among the constants");
  }

  const graph::Graph& graph_;
  PyObject* module_;
  const graph::Names names_;
  const bool repeated_;
  const Settings settings_;
  std::unordered_map<const Node*, ValueId> values_;
  std::unordered_map<const Node*, Owned<>> modules_;               // graph modules or executors of bodies
  std::unordered_map<const Node*, std::vector<ValueId>> results_;  // by inlined call
  std::unordered_map<const Node*, Sizes> items_;                   // sizes of indexed lists' items
  int32_t place_ = -1;                                             // in the outermost graph, of what becomes steps
  Program program_;
};

}  // namespace

Program from_graph(const graph::Graph& graph, PyObject* module, const Settings& settings) {
  return Conversion(graph, module, nullptr, false, settings).run();
}

}  // namespace gramme::native
