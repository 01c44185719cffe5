// Collects the record from a trace: writes to inputs, sizes from data, values that hooks read.
#include "backend/handed_over.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "aten/spec.h"
#include "trace/bodies.h"
#include "trace/wrapper_views.h"

namespace gramme::backend {
namespace {

using graph::Node;

/// True if the graph reads numbers or sizes from data. Sizes of inputs marked unbacked do not count: they come from
/// inputs.
bool takes_data(const trace::Trace& trace) {
  if (!trace.scope().data().any()) return false;
  for (size_t k = 0; k < trace.shapes.assumptions.symbol_count(); ++k)
    if (!trace.shapes.source_of(shape::symbol(static_cast<int64_t>(k)))) return true;
  return std::ranges::any_of(trace.scope().graph().nodes(), [](const Node* node) {
    const bool is_call = node->kind == Node::CallFunction || node->kind == Node::CallMethod;
    const bool asserts = is_call && node->effect && !node->record;
    return asserts || (is_call && node->number_type && node->number_type != &PyLong_Type);
  });
}

std::vector<size_t> places(const std::vector<Node*>& nodes, const std::vector<const Node*>& wanted) {
  std::vector<size_t> result;
  for (size_t i = 0; !wanted.empty() && i < nodes.size(); ++i)
    if (std::ranges::find(wanted, nodes[i]) != wanted.end()) result.push_back(i);
  return result;
}

/// Records which inputs are written, and by which nodes.
void note_writes(const graph::Graph& graph, const trace::GraphInputs& inputs, const effects::WriteLedger& writes,
                 HandedOver& record) {
  const std::vector<Node*>& placeholders = graph.placeholders();
  writes.each_input([&](PyObject* written) {
    const auto found =
        std::ranges::find_if(placeholders, [&](const Node* node) { return inputs.object(node) == written; });
    if (found == placeholders.end())
      record.others_written = true;
    else
      record.written.push_back(static_cast<size_t>(found - placeholders.begin()));
  });
  for (const Node* node : graph.nodes()) record.writes.push_back(writes.is_by(node));
}

/// True if an operand or the result needs a gradient, or it has several results, whose gradients are not known.
bool may_need_gradient(const Node* node) {
  bool may = node->record ? node->record->requires_grad : !node->number_type;
  meta::each_leaf(node->call, [&](const meta::Argument& leaf) {
    const Node* operand = leaf.node;
    const bool is_number = operand->number_type || operand->kind == Node::Placeholder;
    may |= operand->record ? operand->record->requires_grad : !is_number;
  });
  return may;
}

}  // namespace

HandedOver handed_over(const trace::Trace& trace) {
  const graph::Graph& graph = trace.scope().graph();
  const effects::WriteLedger& writes = trace.scope().writes();
  HandedOver record;
  record.grad_at_start = trace.scope().modes().grad_at_start();
  record.writes_inputs = writes.has_inputs();
  record.has_wrappers = trace.scope().has_wrappers();
  record.has_unbacked = takes_data(trace);
  const auto& views = trace.scope().state<trace::WrapperViews>().nodes;
  record.returns_views = std::ranges::any_of(graph.outputs, [&](const Node* output) { return views.contains(output); });
  if (record.writes_inputs) note_writes(graph, trace.scope().inputs(), writes, record);
  for (size_t k = 0; k < trace.shapes.assumptions.symbol_count(); ++k)
    record.unbacked.push_back(trace.shapes.assumptions.is_unbacked(shape::symbol(static_cast<int64_t>(k))));
  record.names_read_later = trace.scope().state<trace::ReadLater>().names();
  const auto& read = trace.scope().state<trace::ReadByHooks>();
  record.inputs_read_later = places(graph.placeholders(), read.inputs);
  record.outputs_read_later = places(graph.outputs, read.outputs);
  return record;
}

CallInputs call_inputs(const trace::Trace& trace) {
  const std::vector<Node*>& placeholders = trace.scope().graph().placeholders();
  CallInputs inputs;
  for (const Node* node : placeholders) inputs.objects.push_back(trace.scope().inputs().object(node));
  if (!trace.scope().writes().has_inputs()) return inputs;
  trace.scope().writes().each_input([&](PyObject* written) { inputs.written.push_back(written); });
  for (const trace::Memory& each : trace.scope().memory()) {
    const auto found = std::ranges::find(placeholders, each.input);
    inputs.memory.emplace_back(static_cast<size_t>(found - placeholders.begin()), each.object);
  }
  return inputs;
}

CallInputs call_inputs(const HandedOver& record, const graph::Graph& graph, const std::vector<Owned<>>& objects) {
  CallInputs inputs;
  for (const Owned<>& object : objects) inputs.objects.push_back(object.get());
  for (size_t written : record.written) inputs.written.push_back(inputs.objects.at(written));
  for (size_t i = 0; record.writes_inputs && i < objects.size(); ++i)
    if (graph.placeholders().at(i)->record) inputs.memory.emplace_back(i, inputs.objects[i]);
  return inputs;
}

bool has_aliased_writes(const HandedOver& record, const CallInputs& inputs) {
  if (record.returns_views) return true;
  if (!record.writes_inputs) return false;
  std::vector<PyObject*> objects;
  std::vector<uint32_t> all;
  for (const auto& [input, object] : inputs.memory) {
    all.push_back(static_cast<uint32_t>(objects.size()));
    objects.push_back(object);
  }
  std::vector<uintptr_t> addresses;
  if (aten::all_apart(objects.data(), all, addresses)) return false;
  for (PyObject* written : inputs.written) {  // also an inner tensor of a written wrapper
    std::optional<size_t> first;
    for (const auto& [input, object] : inputs.memory) {
      if (object != written && !aten::overlap(object, written)) continue;
      if (first && *first != input) return true;
      first = input;
    }
  }
  return false;
}

bool uses_what_it_writes(const HandedOver& record, const graph::Graph& graph, const CallInputs& inputs) {
  if (!record.writes_inputs) return false;
  if (record.has_wrappers) return true;
  std::unordered_set<const Node*> written;
  std::unordered_set<const meta::Record*> records;
  for (size_t i = 0; i < inputs.objects.size(); ++i) {
    const Node* node = graph.placeholders()[i];
    if (!node->record) continue;
    for (PyObject* other : inputs.written) {
      if (inputs.objects[i] != other && !aten::overlap(inputs.objects[i], other)) continue;
      written.insert(node);
      records.insert(node->record);
    }
  }
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node* node = graph.nodes()[i];
    bool used = false;
    if (!record.writes[i])
      meta::each_leaf(node->call, [&](const meta::Argument& leaf) { used |= written.contains(leaf.node); });
    else if (!node->record || records.contains(node->record))
      written.insert(node);  // it returns the tensor that it wrote
    if (used) return true;
  }
  return false;
}

bool records_gradients(const HandedOver& record, const graph::Graph& graph) {
  if (graph.has_bodies()) return true;  // bodies may turn grad mode on
  bool grad = record.grad_at_start;
  for (const Node* node : graph.nodes()) {
    if (graph::sets_grad_mode(node))
      grad = node->call.args[0].object == Py_True;
    else if (grad && may_need_gradient(node))
      return true;
  }
  return false;
}

}  // namespace gramme::backend
