// A captured graph that lives by itself: of what the capture lent it, arena, sources and objects, it has its own.
//
//   Kept kept(graph);                                // beside the guards of its segment, whose sources it has
//   Kept kept(graph, [](PyObject* object) { return share(object); });
//   Kept again(kept.graph(), [&](PyObject* object) { return found.at(object); });   // others in their places
//
// All that is made of a graph can be made of either, since both are the same graph: its torch.fx module, its tape, what
// its nodes give. Ids of nodes, and the numbers that tell modules apart, stay. Records and expressions are interned for
// the life of the process.
#pragma once
#include <functional>
#include <vector>

#include "graph/graph.h"

namespace gramme::graph {

class Kept {
 public:
  /// Gives what the copy holds in an object's place; asked once for each, in the order in which they first occur.
  using ObjectFor = std::function<Owned<>(PyObject*)>;
  Kept(const Graph& from, const ObjectFor& object_for);
  /// With the same objects, and the same sources, whose pool must live as long.
  explicit Kept(const Graph& from);
  const Graph& graph() const { return graph_; }
  /// What it holds, each once, in that order.
  const std::vector<Owned<>>& objects() const { return objects_; }
  size_t bytes() const { return arena_.bytes() + bytes_around_; }

 private:
  static constexpr size_t kFirstBlock = 1024;

  std::vector<Owned<>> objects_;
  Arena arena_{kFirstBlock};
  size_t bytes_around_ = 0;  // of the arena
  source::Pool pool_;
  Graph graph_{arena_};
};

}  // namespace gramme::graph
