// The graph of a segment, kept so that another backend can have it without a capture.
//
//   keep_graph(graph, record, segment);              // after the capture's backend has compiled it
//   const KeptGraph* kept = kept_graph(segment);     // null: a capture is needed
//
// It is stored with the guards (GuardPlan::keep), whose sources it uses, so all copies of the segment share it. The
// first backend's requirements on sizes are among the guards, so the second serves no more calls than the first. It is
// a Python object, so that the collector can traverse it. The process keeps a few megabytes of them and evicts the
// least recently used.
#pragma once
#include <optional>

#include "backend/handed_over.h"
#include "graph/kept.h"
#include "plan/segment.h"

namespace gramme::backend {

class KeptGraph {
 public:
  KeptGraph(const graph::Graph& graph, HandedOver record) : kept_(graph), record_(std::move(record)) {}
  const graph::Graph& graph() const { return kept_.graph(); }
  const HandedOver& record() const { return record_; }
  const std::vector<Owned<>>& objects() const { return kept_.objects(); }
  size_t bytes() const { return kept_.bytes(); }
  /// True if these inputs of a matching call have the autograd state that the graph assumes. Guards do not check it
  /// where nothing is recorded.
  bool describes(const std::vector<Owned<>>& inputs) const;

 private:
  graph::Kept kept_;
  HandedOver record_;
};

/// Keeps the graph for later hand-overs if it can be handed over in another call.
void keep_graph(const graph::Graph& graph, HandedOver record, plan::Segment& segment);
/// Valid until Python runs, or while a reference to `segment.guards.kept()` is held.
std::shared_ptr<const KeptGraph> kept_graph(const plan::Segment& segment);
/// Drops the segment's kept graph.
void drop_graph(plan::Segment& segment);

struct KeptGraphs {
  size_t count, bytes;
};
/// The counts of kept graphs in the process.
KeptGraphs kept_graphs();

}  // namespace gramme::backend
