// Reads a graph once into a plain description, and makes fake tensors from that description later.
#include "backend/examples.h"

#include <algorithm>
#include <unordered_map>

#include "aten/python.h"
#include "backend/computed.h"
#include "base/imported.h"
#include "base/once.h"
#include "meta/fakes.h"

namespace gramme::backend {
namespace {

using graph::Node;

/// The node's index in its torch.fx graph.
size_t place_of(const Node& node) {
  const auto &inputs = node.graph->placeholders(), &calls = node.graph->nodes();
  const auto input = std::ranges::find(inputs, &node);
  if (input != inputs.end()) return static_cast<size_t>(input - inputs.begin());
  return inputs.size() + static_cast<size_t>(std::ranges::find(calls, &node) - calls.begin());
}

/// The node and index of `node[index]`.
std::pair<const Node*, size_t> taken_from(const Node& node) {
  PyObject* const getitem = once([] { return imported("_operator", "getitem").release(); });
  const meta::Call& call = node.call;
  if (call.target != getitem || call.arg_count != 2 || !call.args[0].node || call.args[0].record) return {};
  PyObject* index = call.args[1].object;
  if (!index || !PyLong_CheckExact(index)) return {};
  return {call.args[0].node, PyLong_AsSize_t(index)};
}

bool can_be_computed(const meta::Record& record, Computed& computed) {
  if (!record.symbolic) return true;
  return computed.list(record.sizes) && computed.list(record.strides) && computed.of(record.storage_offset) &&
         std::ranges::all_of(record.parts, [&](const meta::Record* part) { return can_be_computed(*part, computed); });
}

}  // namespace

/// Reads one graph. A call's result that is no tensor is described by the items taken from it.
class Examples::Reader {
 public:
  /// `caller`: the graph with the node that stands for this body. It is another one than the graph around the body
  /// where a backward was captured inside its forward.
  explicit Reader(const graph::Graph& graph, const graph::Graph* caller = nullptr) : graph_(graph), caller_(caller) {
    for (const graph::Graph::Event& event : graph.events())
      if (event.node && !event.hint)
        if (auto [from, index] = taken_from(*event.node); from) items_[from].emplace_back(index, event.node);
  }

  std::vector<Example> read() const {
    std::vector<Example> result;
    for (const Node* node : graph_.placeholders()) result.push_back(example(*node));
    for (const Node* node : graph_.nodes()) result.push_back(example(*node));
    return result;
  }

 private:
  Example example(const Node& node) const {
    Example result;
    if (node.kind == Node::Body) {
      result.kind = Example::Body;
      result.items = Reader(*node.body, &graph_).read();
    } else if (node.kind == Node::Attribute) {
      result.kind = Example::Object;
      result.object = share(node.object);
    } else if (node.outer && node.outer->graph == caller_) {
      result.kind = Example::Outer;
      result.place = place_of(*node.outer);
    } else if (node.record) {
      result.kind = Example::Tensor;
      result.record = node.record;
    } else if (const auto taken = items_.find(&node); taken != items_.end()) {
      result.kind = Example::Items;
      for (const auto& [index, item] : taken->second) {
        if (result.items.size() <= index) result.items.resize(index + 1);
        result.items[index] = example(*item);
      }
    }
    return result;
  }

  const graph::Graph& graph_;
  const graph::Graph* caller_;
  std::unordered_map<const Node*, std::vector<std::pair<size_t, const Node*>>> items_;
};

/// Makes one list of fakes. Two nodes never share a fake, so that comparing storages gives the right answer.
class Examples::Maker {
 public:
  Maker(PyObject* mode, PyObject* values)
      : computed_(values),
        fakes_(share(mode), [this](shape::SymInt number) { return aten::symint_of(computed_.of(number)); }) {}

  Owned<> list(const std::vector<Example>& examples) {
    Owned<> result = take(PyList_New(0));
    for (const Example& each : examples) check(PyList_Append(result.get(), make(each).get()));
    check(PyList_Append(result.get(), Py_None));  // output
    return result;
  }

 private:
  Owned<> make(const Example& example) {
    switch (example.kind) {
      case Example::Nothing:
        break;
      case Example::Tensor:
        if (!can_be_computed(*example.record, computed_)) break;
        return fakes_.fake(example.record, made_[example.record]++);
      case Example::Items: {
        Owned<> result = take(PyTuple_New(static_cast<Py_ssize_t>(example.items.size())));
        for (size_t i = 0; i < example.items.size(); ++i)
          PyTuple_SET_ITEM(result.get(), i, make(example.items[i]).release());
        return result;
      }
      case Example::Body:
        return list(example.items);
      case Example::Outer:
        return take(PyLong_FromSize_t(example.place));
      case Example::Object:
        return take(PyTuple_Pack(1, example.object.get()));
    }
    return share(Py_None);
  }

  Computed computed_;
  meta::Fakes fakes_;
  std::unordered_map<const meta::Record*, size_t> made_;
};

Examples::Examples(const graph::Graph& graph) : nodes_(Reader(graph).read()) {}

Owned<> Examples::fakes(PyObject* mode, PyObject* values) const { return Maker(mode, values).list(nodes_); }

}  // namespace gramme::backend
