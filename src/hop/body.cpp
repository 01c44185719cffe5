#include "hop/body.h"

#include <algorithm>

namespace gramme::hop {

using namespace value;
using meta::Argument;

Body::Body(Trace& trace, const char* prefix, Effects effects)
    : trace_(trace), graph_(trace.scope().enter_body(prefix)) {
  trace.enter_opaque();
  if (effects == Effects::Forbidden) confined_.emplace(trace);
}

Body::~Body() {
  if (open_) trace_.scope().abandon_body();
}

Tensor* Body::input(const meta::Record* record, const char* label) {
  auto* tensor = trace_.make<Tensor>();
  tensor->node = graph_->input(record, label, trace_.position());
  tensor->record = record;
  tensor->made_at = trace_.steps();
  if (confined_) confined_->disown(tensor);
  return tensor;
}

Value* Body::call(Value* function, const Args& args) {
  try {
    return protocol::call(trace_, function, args);
  } catch (const UserError& error) {
    Value* raised = trace_.see(error.exception);
    auto* exception = as<Object>(raised);
    const std::string line =
        exception && !exception->passed.empty() ? " in line " + std::to_string(exception->passed[0].line) : "";
    cannot(Reason::BodyRaised, protocol::type_of(raised)->tp_name + line);
  }
}

std::vector<Tensor*> Body::tensors(Value* result) const {
  std::vector<Tensor*> found;
  auto visit = [&](auto&& self, Value* value) -> void {
    value = trace_.see(value);
    if (auto* tuple = as<Tuple>(value))
      for (Value* item : tuple->items) self(self, item);
    if (auto* list = as<List>(value))
      for (Value* item : list->items()) self(self, item);
    if (auto* dict = as<Dict>(value); dict && !dict->existing())
      dict->entries.each([&](Table::Entry& entry) { self(self, entry.value); });
    auto* tensor = as<Tensor>(value);
    const bool made = tensor && tensor->node && tensor->node->graph == graph_ && !tensor->node->outer;
    if (made && std::find(found.begin(), found.end(), tensor) == found.end()) found.push_back(tensor);
  };
  visit(visit, result);
  return found;
}

graph::Graph* Body::returns(const std::vector<Tensor*>& tensors) {
  std::vector<Argument> items;
  for (Tensor* tensor : tensors) items.push_back(trace_.scope().argument(tensor));
  return returns(trace_.scope().sequence_of(Argument::Tuple, items));
}

graph::Graph* Body::returns(const Argument& result) {
  graph_->returns(result);
  leave();
  return graph_;
}

void Body::leave() {
  if (confined_) confined_->check();
  open_ = false;
  trace_.scope().leave_body();
  confined_.reset();
}

bool Body::is_own(const Tensor* tensor) const {
  for (; tensor; tensor = tensor->base) {
    const graph::Node* node = tensor->node;
    if (!node || node->outer || node->label || !node->graph->is_in(graph_)) return false;
  }
  return true;
}

std::vector<Argument> lifted(const graph::Graph& body) {
  std::vector<Argument> arguments;
  for (const graph::Node* input : body.placeholders()) {
    if (!input->outer) continue;
    Argument& argument = arguments.emplace_back();
    argument.kind = input->record ? Argument::Tensor : Argument::Number;
    argument.node = input->outer;
    argument.record = input->record;
  }
  return arguments;
}

void take_results(Trace& trace, graph::Node* call, const std::vector<Tensor*>& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i]->node = trace.scope().item(call, i, tensors[i]->record);
}

Argument constant(PyObject* object) {
  Argument argument;
  argument.object = object;
  return argument;
}

}  // namespace gramme::hop
