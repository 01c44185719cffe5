// Deep copy of a graph with its bodies, nodes, calls and sources; the caller's function supplies the Python objects.
#include "graph/kept.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <unordered_map>

namespace gramme::graph {

class Copier {
 public:
  /// Without a pool, the copy uses the same sources.
  Copier(Arena& arena, source::Pool* pool, const Kept::ObjectFor& object_for, std::vector<Owned<>>& kept)
      : arena_(arena), pool_(pool), object_for_(object_for), kept_(kept) {}

  void copy(const Graph& from, Graph& to) {
    pair(from, to);
    for (const auto& [graph, made] : std::vector(pairs_)) fill(*graph, *made);
  }

 private:
  /// Makes empty bodies first: nodes of any graph may refer to bodies, and bodies to nodes.
  void pair(const Graph& from, Graph& to) {
    pairs_.emplace_back(&from, &to);
    graphs_[&from] = &to;
    for (const auto& body : from.bodies_) pair(*body, *to.make_body(text(body->prefix_)));
  }

  void fill(const Graph& from, Graph& to) {
    to.name_ = from.name_;
    to.named_ = from.named_;
    to.next_id_ = from.next_id_;
    to.caller = node(from.caller);
    to.in_place = from.in_place;
    to.writes_around = from.writes_around;
    to.shared = from.shared;
    to.custom = object(from.custom);
    to.module_ = module(from.module_);
    for (const auto& [key, value] : from.metadata) to.metadata.emplace_back(text(key), object(value));
    for (const Graph::Event& event : from.events_)
      to.events_.push_back({node(event.node), object(event.hint), text(event.suffix)});
    for (const Node* each : from.placeholders_) to.placeholders_.push_back(node(each));
    for (const Node* each : from.nodes_) to.nodes_.push_back(node(each));
    for (const Node* each : from.outputs) to.outputs.push_back(node(each));
    to.result_ = argument(from.result_);
  }

  /// Copies a node and what it refers to. Events are in program order, so operands are mostly copied before.
  Node* node(const Node* from) {
    if (!from) return nullptr;
    Node*& known = nodes_[from];
    if (known) return known;
    Node* made = known = arena_.make<Node>(*from);
    made->call = call(from->call);
    made->source = source(from->source);
    made->position = position(from->position);
    made->module = module(from->module);
    made->custom = object(from->custom);
    made->number_type = type(from->number_type);
    made->graph = graphs_.at(from->graph);
    made->body = from->body ? graphs_.at(from->body) : nullptr;
    made->object = object(from->object);
    made->outer = node(from->outer);
    made->label = text(from->label);
    return made;
  }

  meta::Call call(const meta::Call& from) {
    meta::Call made = from;
    made.target = object(from.target);
    made.args = arguments(from.args, from.arg_count);
    made.keyword_args = arguments(from.keyword_args, from.keyword_count);
    PyObject** names = array<PyObject*>(from.keyword_count);
    for (uint32_t i = 0; i < from.keyword_count; ++i) names[i] = object(from.keyword_names[i]);
    made.keyword_names = names;
    return made;
  }

  const meta::Argument* arguments(const meta::Argument* from, uint32_t count) {
    auto* made = array<meta::Argument>(count);
    for (uint32_t i = 0; i < count; ++i) std::construct_at(made + i, argument(from[i]));
    return made;
  }

  meta::Argument argument(const meta::Argument& from) {
    meta::Argument made = from;
    made.node = node(from.node);
    made.object = object(from.object);
    made.items = arguments(from.items, from.count);
    return made;
  }

  const Position* position(const Position* from) {
    if (!from) return nullptr;
    const Position*& known = positions_[from];
    if (known) return known;
    auto* code = reinterpret_cast<PyCodeObject*>(object(reinterpret_cast<PyObject*>(from->code)));
    const Position* made = arena_.make<Position>(code, from->unit, position(from->caller));
    return positions_[from] = made;
  }

  const ModuleCall* module(const ModuleCall* from) {
    if (!from) return nullptr;
    if (const auto known = modules_.find(from); known != modules_.end()) return known->second;
    const ModuleCall* made = arena_.make<ModuleCall>(from->identity, type(from->type), source(from->path),
                                                     from->earlier, module(from->caller));
    return modules_[from] = made;
  }

  const source::Source* source(const source::Source* from) {
    if (!from || !pool_) return from;
    if (const auto known = sources_.find(from); known != sources_.end()) return known->second;
    const source::Source* base = source(from->base);
    const source::Source* made = pool_->like(*from, base, object(from->key.get()));
    if (from->variable) source::Pool::show_as(made, object(from->variable.get()));
    return sources_[from] = made;
  }

  PyTypeObject* type(PyTypeObject* from) {
    return reinterpret_cast<PyTypeObject*>(object(reinterpret_cast<PyObject*>(from)));
  }

  PyObject* object(PyObject* from) {
    if (!from) return nullptr;
    PyObject*& known = objects_[from];
    if (known) return known;
    kept_.push_back(object_for_(from));
    return known = kept_.back().get();
  }

  template <class T>
  T* array(uint32_t count) {
    return count ? static_cast<T*>(arena_.bytes_for(sizeof(T) * count)) : nullptr;
  }

  const char* text(const char* from) {
    if (!from) return nullptr;
    const size_t size = std::strlen(from) + 1;
    return static_cast<const char*>(std::memcpy(arena_.bytes_for(size), from, size));
  }

  Arena& arena_;
  source::Pool* pool_;
  const Kept::ObjectFor& object_for_;
  std::vector<Owned<>>& kept_;
  std::vector<std::pair<const Graph*, Graph*>> pairs_;
  std::unordered_map<const Graph*, Graph*> graphs_;
  std::unordered_map<const Node*, Node*> nodes_;
  std::unordered_map<const Position*, const Position*> positions_;
  std::unordered_map<const ModuleCall*, const ModuleCall*> modules_;
  std::unordered_map<const source::Source*, const source::Source*> sources_;
  std::unordered_map<PyObject*, PyObject*> objects_;
};

Kept::Kept(const Graph& from, const ObjectFor& object_for) {
  Copier(arena_, &pool_, object_for, objects_).copy(from, graph_);
}

Kept::Kept(const Graph& from) {
  const ObjectFor same = [](PyObject* object) { return share(object); };
  Copier(arena_, nullptr, same, objects_).copy(from, graph_);
  bytes_around_ = objects_.size() * sizeof(Owned<>) + graph_.events().size() * sizeof(Graph::Event) +
                  graph_.nodes().size() * sizeof(Node*);
}

}  // namespace gramme::graph
