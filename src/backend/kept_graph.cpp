// A bounded cache of graphs, as Python objects that the collector can traverse.
#include "backend/kept_graph.h"

#include <algorithm>
#include <new>

#include "aten/spec.h"
#include "base/process.h"

namespace gramme::backend {
namespace {

constexpr size_t kMostBytes = 4 * 1024 * 1024;  // of all graphs
constexpr size_t kMostNodes = 4096;             // of one graph

using Content = std::shared_ptr<const KeptGraph>;

struct Holder {
  PyObject_HEAD;
  Content content;  // null after eviction
  uint64_t asked;   // time of the last use
};

/// Segments keep holders.
struct All {
  std::vector<Holder*> holders;  // GIL: those with content
  size_t bytes = 0;              // GIL: of their content
  uint64_t now = 0;              // GIL, a word: rises with each use

  size_t size() const { return holders.size(); }
};
Lasting<All> all;

Holder* as_holder(PyObject* object) { return reinterpret_cast<Holder*>(object); }

/// Takes the content, whose release may run Python.
Content emptied(Holder* holder) {
  if (!holder->content) return nullptr;
  std::erase(all->holders, holder);
  all->bytes -= holder->content->bytes();
  return std::exchange(holder->content, nullptr);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  const Content& content = as_holder(self)->content;
  if (!content || content.use_count() != 1) return 0;  // in use by a hand-over
  for (const Owned<>& object : content->objects()) Py_VISIT(object.get());
  return 0;
}

void deallocate(PyObject* self) {
  PyObject_GC_UnTrack(self);
  emptied(as_holder(self));
  as_holder(self)->content.~Content();
  PyObject_GC_Del(self);
}

PyTypeObject make_type() {
  PyTypeObject type{PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "gramme._C.KeptGraph";
  type.tp_basicsize = sizeof(Holder);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  type.tp_dealloc = deallocate;
  type.tp_traverse = traverse;  // entries break the cycles
  return type;
}

PyTypeObject* holder_type() {
  static PyTypeObject type = make_type();  // no Python: fields
  if (!(type.tp_flags & Py_TPFLAGS_READY)) check(PyType_Ready(&type));
  return &type;
}

Owned<> held(Content content) {
  WithoutCollection no_finalizers;
  Holder* holder = PyObject_GC_New(Holder, holder_type());
  if (!holder) throw PythonError();
  all->bytes += content->bytes();
  new (&holder->content) Content(std::move(content));
  holder->asked = ++all->now;
  all->holders.push_back(holder);
  PyObject_GC_Track(holder);
  return Owned<>::steal(reinterpret_cast<PyObject*>(holder));
}

/// True if every input can be read by the guards in any call; other inputs exist only in the capture.
bool is_of_any_call(const graph::Graph& graph, const HandedOver& record) {
  return !record.has_wrappers && !record.returns_views && !record.others_written && !record.has_unbacked &&
         record.names_read_later.empty() && std::ranges::all_of(graph.placeholders(), [](const graph::Node* node) {
           return node->symbol || (node->record && !node->record->context);
         });
}

}  // namespace

bool KeptGraph::describes(const std::vector<Owned<>>& inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const meta::Record* record = graph().placeholders().at(i)->record;
    if (!record) continue;
    const aten::TensorType* now = aten::tensor_spec(inputs[i].get())->tensor;
    if (now->requires_grad != record->requires_grad || now->is_leaf != record->is_leaf) return false;
  }
  return true;
}

void keep_graph(const graph::Graph& graph, HandedOver record, plan::Segment& segment) {
  if (graph.length() > kMostNodes || !segment.classed.empty() || !is_of_any_call(graph, record)) return;
  segment.guards.keep(held(std::make_shared<const KeptGraph>(graph, std::move(record))));
  std::vector<Content> dropped;
  while (all->bytes > kMostBytes)
    dropped.push_back(
        emptied(*std::ranges::min_element(all->holders, {}, [](const Holder* each) { return each->asked; })));
}

std::shared_ptr<const KeptGraph> kept_graph(const plan::Segment& segment) {
  PyObject* kept = segment.guards.kept();
  if (!kept || !as_holder(kept)->content) return nullptr;
  as_holder(kept)->asked = ++all->now;
  return as_holder(kept)->content;
}

void drop_graph(plan::Segment& segment) { segment.guards.keep({}); }

KeptGraphs kept_graphs() { return {all->holders.size(), all->bytes}; }

}  // namespace gramme::backend
