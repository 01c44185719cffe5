// A copy of a captured graph that outlives its capture: it owns its arena, sources and objects.
//
//   Kept kept(graph);                                // beside the guards of its segment, whose sources it has
//   Kept kept(graph, [](PyObject* object) { return share(object); });
//   Kept again(kept.graph(), [&](PyObject* object) { return found.at(object); });   // others in their places
//
// Original and copy are interchangeable: both give the same torch.fx module, tape and results. Ids of nodes and
// identities of modules are the same. Records and expressions are interned for the life of the process, so they are
// shared.
#pragma once
#include <functional>
#include <vector>

#include "graph/graph.h"

namespace gramme::graph {

class Kept {
 public:
  /// Returns the copy's object for one of the original; called once for each, in order of first occurrence.
  using ObjectFor = std::function<Owned<>(PyObject*)>;
  Kept(const Graph& from, const ObjectFor& object_for);
  /// Shares objects and sources with the original; the sources' pool must live as long as the copy.
  explicit Kept(const Graph& from);
  const Graph& graph() const { return graph_; }
  /// The objects that it owns, without duplicates, in that order.
  const std::vector<Owned<>>& objects() const { return objects_; }
  size_t bytes() const { return arena_.bytes() + bytes_around_; }

 private:
  static constexpr size_t kFirstBlock = 1024;

  std::vector<Owned<>> objects_;
  Arena arena_{kFirstBlock};
  size_t bytes_around_ = 0;  // memory outside of the arena
  source::Pool pool_;
  Graph graph_{arena_};
};

}  // namespace gramme::graph
