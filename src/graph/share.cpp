// Merges bodies that do the same into one graph with one name.
#include <algorithm>
#include <cstring>
#include <memory>

#include "graph/graph.h"

namespace gramme::graph {
namespace {

using meta::Argument;

/// True if two constants are interchangeable in a graph; only for types whose equality is well known.
bool same_constant(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (!a || !b || Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyFloat_CheckExact(a)) {
    const double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
    return memcmp(&x, &y, sizeof x) == 0;
  }
  if (!PyLong_CheckExact(a) && !PyUnicode_CheckExact(a)) return false;
  return PyObject_RichCompareBool(a, b, Py_EQ) == 1;
}

/// True if the call's arguments start with a body and its name.
bool told_name(const meta::Call& call) {
  if (call.arg_count < 2 || call.args[0].kind != Argument::Body) return false;
  const Graph* body = call.args[0].node->body;
  return body && body->shared;
}

/// Two graphs being compared, node by node.
class Comparison {
 public:
  static bool same_body(const Graph& a, const Graph& b) {
    return &a == &b ||
           (a.in_place == b.in_place && a.metadata == b.metadata && a.shared == b.shared && Comparison().run(a, b));
  }

 private:
  bool run(const Graph& a, const Graph& b) {
    const auto each = [this](const Node* x, const Node* y) { return same(*x, *y); };
    const auto equal = [&](const std::vector<Node*>& x, const std::vector<Node*>& y) {
      return std::equal(x.begin(), x.end(), y.begin(), y.end(), each);
    };
    return equal(a.placeholders(), b.placeholders()) && equal(a.nodes(), b.nodes()) && same(a.result(), b.result());
  }

  bool same(const Node& a, const Node& b) {
    if (a.kind != b.kind || a.record != b.record || a.number_type != b.number_type || a.symbol != b.symbol)
      return false;
    if (a.object != b.object || (a.label && b.label ? strcmp(a.label, b.label) != 0 : a.label != b.label)) return false;
    if (a.kind == Node::Body ? !same_body(*a.body, *b.body) : !same(a.call, b.call)) return false;
    matches_[&a] = &b;
    return true;
  }

  bool same(const meta::Call& a, const meta::Call& b) {
    if (a.kind != b.kind || a.target != b.target || a.arg_count != b.arg_count || a.keyword_count != b.keyword_count)
      return false;
    for (uint32_t i = 0; i < a.arg_count; ++i)
      if (!same(a.args[i], b.args[i]) && !(i == 1 && told_name(a))) return false;
    for (uint32_t i = 0; i < a.keyword_count; ++i)
      if (a.keyword_names[i] != b.keyword_names[i] || !same(a.keyword_args[i], b.keyword_args[i])) return false;
    return true;
  }

  bool same(const Argument& a, const Argument& b) {
    if (a.kind != b.kind || a.count != b.count || !a.node != !b.node) return false;
    if (a.node && matches_[a.node] != b.node) return false;
    if (!a.node && !same_constant(a.object, b.object)) return false;
    for (uint32_t i = 0; i < a.count; ++i)
      if (!same(a.items[i], b.items[i])) return false;
    return true;
  }

  std::unordered_map<const Node*, const Node*> matches_;
};

}  // namespace

void Graph::share_bodies() {
  if (bodies_.empty()) return;
  named_.clear();
  std::vector<Graph*> known;
  share_bodies_of(*this, known);
}

void Graph::share_bodies_of(Graph& graph, std::vector<Graph*>& known) {
  for (Node* node : graph.nodes_) {
    if (node->kind == Node::Attribute) ++named_[node->label];
    if (node->kind == Node::Body) {
      const std::map<std::string, int> before = named_;
      share_bodies_of(*node->body, known);
      const auto equal = std::find_if(known.begin(), known.end(), [&](const Graph* other) {
        return other->around_ == node->body->around_ && Comparison::same_body(*node->body, *other);
      });
      if (!node->body->shared || equal == known.end()) {
        give_name(node->body);
        if (node->body->shared) known.push_back(node->body);
      } else {
        named_ = before;
        node->body = *equal;
      }
    }
    if (!told_name(node->call)) continue;
    const std::string& name = node->call.args[0].node->body->name_;
    Owned<> text = take(PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size())));
    auto* args = static_cast<Argument*>(arena_.bytes_for(sizeof(Argument) * node->call.arg_count));
    std::uninitialized_copy_n(node->call.args, node->call.arg_count, args);
    args[1].object = text.get();
    node->call.args = args;
    kept_.push_back(std::move(text));
  }
}

}  // namespace gramme::graph
