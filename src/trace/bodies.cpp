// Bodies of higher-order operators: graphs inside the segment's graph. The scope fills one at a time and lifts what it
// uses from outside.
#include <algorithm>

#include "base/imported.h"
#include "base/once.h"
#include "trace/scope.h"

namespace gramme::trace {

using meta::Argument;

graph::Graph* Scope::enter_body(const char* prefix) {
  if (has_twins_) cannot(Reason::TensorSubclass, "beside an operator that takes functions");
  graph_ = graph_->make_body(prefix);
  modes_.enter_body();
  return graph_;
}

void Scope::leave_body() {
  graph_ = graph_->around();
  if (!modes_.leave_body())
    cannot(Reason::BodyUnsupported, "a function that leaves the thread in other modes than it found");
}

void Scope::abandon_body() {
  modes_.abandon_body();
  graph_ = graph_->around();
}

graph::Node* Scope::here(graph::Node* node) {
  if (!graph_->is_in(node->graph)) cannot(Reason::EffectInBody, "a value of a body that the body does not return");
  return graph_->here(node);
}

/// Makes a finished body also return a value that is used after it.
graph::Node* Scope::take_out(graph::Node* node) {
  while (!graph_->is_in(node->graph)) {
    graph::Node* caller = node->graph->caller;
    const int index = caller && node->record ? node->graph->also_return(node) : -1;
    if (index < 0) cannot(Reason::EffectInBody, "a tensor of a body that the body does not return");
    graph::Graph* now = std::exchange(graph_, caller->graph);
    node = item(caller, static_cast<size_t>(index), node->record);
    graph_ = now;
  }
  return node;
}

void Scope::expect_program() {
  if (capture_.contract.breaks && !capture_.effects().empty())
    cannot(Reason::LateEffect, "a function of the program in the graph, which may look at what was written");
  writes_.expect_python(false, raising());
  writes_.expect_program();
}

Argument Scope::attribute(const std::string& name, PyObject* object) {
  Argument result;
  result.kind = Argument::Body;
  result.object = object;
  result.node = graph_->attribute(name, object, capture_.position());
  return result;
}

Argument Scope::body(graph::Graph* body) {
  Argument result;
  result.kind = Argument::Body;
  result.node = graph_->install(body, capture_.position());
  return result;
}

Argument Scope::sequence_of(Argument::Kind kind, const std::vector<Argument>& items) {
  auto* copies = static_cast<Argument*>(capture_.arena.bytes_for(sizeof(Argument) * (items.size() + 1)));
  std::uninitialized_copy(items.begin(), items.end(), copies);
  Argument result;
  result.kind = kind;
  result.items = copies;
  result.count = static_cast<uint32_t>(items.size());
  return result;
}

/// Records that the node runs the bodies in the argument, so their writes count as the node's.
void Scope::runs(graph::Node* node, const Argument& argument) {
  for (uint32_t i = 0; i < argument.count; ++i) runs(node, argument.items[i]);
  if (argument.kind != Argument::Body || !argument.node->body) return;
  graph::Graph* body = argument.node->body;
  body->caller = body->caller && body->caller != node ? nullptr : node;
  for (const graph::Node* inside : body->nodes()) node->operators += inside->operators;
  writes_.settle(node, body);
}

graph::Node* Scope::emit_operator(PyObject* target, const std::vector<Argument>& args,
                                  const std::vector<std::pair<const char*, Argument>>& keywords) {
  meta::Call call;
  call.target = target;
  call.args = sequence_of(Argument::Tuple, args).items;
  call.arg_count = static_cast<uint32_t>(args.size());
  std::vector<Argument> values;
  auto** names = static_cast<PyObject**>(capture_.arena.bytes_for(sizeof(PyObject*) * (keywords.size() + 1)));
  for (size_t i = 0; i < keywords.size(); ++i) {
    names[i] = capture_.keep(take(PyUnicode_InternFromString(keywords[i].first)));
    values.push_back(keywords[i].second);
  }
  call.keyword_names = names;
  call.keyword_args = sequence_of(Argument::Tuple, values).items;
  call.keyword_count = static_cast<uint32_t>(keywords.size());
  graph::Node* node = graph_->call(call, capture_.position());
  node->effect = true;
  writes_.note_operator(node);
  for (const Argument& argument : args) runs(node, argument);
  return node;
}

graph::Node* Scope::item(graph::Node* of, size_t index, const meta::Record* record) {
  PyObject* const getitem = once([] { return imported("_operator", "getitem").release(); });
  Argument from, at;
  from.kind = Argument::Tensor;
  from.node = of;
  at.object = capture_.keep(take(PyLong_FromSize_t(index)));
  meta::Call call;
  call.target = getitem;
  call.args = sequence_of(Argument::Tuple, {from, at}).items;
  call.arg_count = 2;
  graph::Node* node = graph_->call(call, capture_.position());
  node->record = record;
  return node;
}

}  // namespace gramme::trace
