// Building a graph: nodes, inputs of bodies, names of bodies, and removal of unused nodes.
#include "graph/graph.h"

#include <algorithm>
#include <memory>

#include "base/error.h"

namespace gramme::graph {

namespace {

/// Calls `visit` for every node among the call's arguments.
template <class Visit>
void each_node(const meta::Argument& argument, Visit&& visit) {
  if (argument.node) return visit(argument.node);
  for (uint32_t i = 0; i < argument.count; ++i) each_node(argument.items[i], visit);
}
template <class Visit>
void each_node(const meta::Call& call, Visit&& visit) {
  for (uint32_t i = 0; i < call.arg_count; ++i) each_node(call.args[i], visit);
  for (uint32_t i = 0; i < call.keyword_count; ++i) each_node(call.keyword_args[i], visit);
}

}  // namespace

Node* Graph::add(Node::Kind kind, const Position* position) {
  Node* node = arena_.make<Node>();
  node->kind = kind;
  node->id = next_id_++;
  node->position = position;
  node->module = module_;
  node->custom = custom;
  node->graph = this;
  events_.push_back({node, nullptr});
  return node;
}

Node* Graph::placeholder(const source::Source* source, const meta::Record* record, const Position* position) {
  Node* node = add(Node::Placeholder, position);
  node->source = source;
  node->record = record;
  placeholders_.push_back(node);
  return node;
}

Node* Graph::call(const meta::Call& call, const Position* position) {
  Node* node = add(call.kind == meta::Call::Function ? Node::CallFunction : Node::CallMethod, position);
  node->call = call;
  each_node(node->call, [](Node* argument) { ++argument->uses; });
  nodes_.push_back(node);
  return node;
}

void Graph::skip_name(const meta::Call& call) {
  Node* node = add(call.kind == meta::Call::Function ? Node::CallFunction : Node::CallMethod, nullptr);
  node->call.target = call.target;
}

// ---- bodies

Graph* Graph::make_body(const char* prefix) {
  Graph* body = bodies_.emplace_back(std::make_unique<Graph>(arena_)).get();
  body->around_ = this;
  body->prefix_ = prefix;
  body->module_ = module_;
  body->custom = custom;
  return body;
}

bool Graph::is_in(const Graph* other) const { return this == other || (around_ && around_->is_in(other)); }

Node* Graph::here(Node* node) {
  if (node->graph == this) return node;
  if (!around_) GRAMME_BUG("a node of a graph that does not stand around this one");
  Node*& inside = lifted_[node];
  if (inside) return inside;
  Node* made = lift(around_->here(node));
  return lifted_[node] = made;
}

Node* Graph::lift(Node* outer) {
  Node* made = placeholder(outer->source, outer->record, outer->position);
  made->outer = outer;
  made->number_type = outer->number_type;
  made->symbol = outer->symbol;
  return made;
}

Node* Graph::input(const meta::Record* record, const char* label, const Position* position) {
  Node* node = placeholder(nullptr, record, position);
  node->label = label;
  return node;
}

Node* Graph::install(Graph* body, const Position* position) {
  if (body->name_.empty()) root().give_name(body);
  Node* node = add(Node::Body, position);
  node->body = body;
  nodes_.push_back(node);
  return node;
}

void Graph::give_name(Graph* body) {
  body->name_ = std::string(body->prefix_) + "_" + std::to_string(named_[body->prefix_]++);
}

Node* Graph::attribute(const std::string& name, PyObject* object, const Position* position) {
  Node* node = add(Node::Attribute, position);
  const int earlier = root().named_[name]++;
  const std::string label = earlier ? name + "_" + std::to_string(earlier - 1) : name;
  char* copy = static_cast<char*>(arena_.bytes_for(label.size() + 1));
  std::copy_n(label.c_str(), label.size() + 1, copy);
  node->label = copy;
  node->object = object;
  nodes_.push_back(node);
  return node;
}

void Graph::returns(const meta::Argument& result) {
  result_ = result;
  each_node(result, [](Node* node) { node->output = true; });
}

int Graph::also_return(Node* node) {
  if (result_.kind != meta::Argument::Tuple) return -1;
  auto* items = static_cast<meta::Argument*>(arena_.bytes_for(sizeof(meta::Argument) * (result_.count + 1)));
  std::uninitialized_copy(result_.items, result_.items + result_.count, items);
  meta::Argument* added = new (items + result_.count) meta::Argument();
  added->kind = meta::Argument::Tensor;
  added->node = node;
  added->record = node->record;
  result_.items = items;
  node->output = true;
  return static_cast<int>(result_.count++);
}

void Graph::hint(Node* node, PyObject* variable) {
  if (node->hinted || node->kind == Node::Placeholder || node->graph != this) return;
  node->hinted = true;
  events_.push_back({node, variable});
}

void Graph::name_last(const Node* node) {
  const auto made = std::ranges::find_if(events_, [node](const Event& event) { return event.node == node; });
  std::rotate(made, made + 1, events_.end());
}

const ModuleCall* Graph::enter(PyObject* module, const source::Source* path) {
  const ModuleCall* before = module_;
  module_ = arena_.make<ModuleCall>(reinterpret_cast<uintptr_t>(module), Py_TYPE(module), path,
                                    root().calls_by_path_[path]++, before);
  return before;
}

void Graph::remove_dead() {
  auto dead = [](const Node* node) { return node->uses == 0 && !node->output && !node->effect; };
  for (size_t i = nodes_.size(); i-- > 0;) {
    if (!dead(nodes_[i])) continue;
    each_node(nodes_[i]->call, [](Node* argument) { --argument->uses; });
    nodes_[i] = nullptr;
  }
  std::erase(nodes_, nullptr);
  for (const auto& body : bodies_) body->remove_dead();
  if (!around_) std::erase_if(placeholders_, dead);  // those of a body are its operator's arguments
}

}  // namespace gramme::graph
