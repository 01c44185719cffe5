// The graph of a segment, kept so that another backend can have it without a capture.
//
//   keep_graph(graph, record, segment);              // after the capture's backend has compiled it
//   const KeptGraph* kept = kept_graph(segment);     // null: a capture is needed
//
// It stands beside the guards (GuardPlan::keep), whose sources it has, and so is one for all copies of the segment.
// What the first backend required of sizes is among the guards, so the second serves no more calls than the first. It
// is a Python object, so that the collector sees what it holds. The process keeps some megabytes of them; those not
// asked for longest go first.
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
  /// True if these objects, inputs of a call that the guards hold of, are to autograd what the graph says of its
  /// inputs: guards do not ask where nothing is recorded.
  bool describes(const std::vector<Owned<>>& inputs) const;

 private:
  graph::Kept kept_;
  HandedOver record_;
};

/// Keeps the graph for later hand-overs if it can be handed over in another call.
void keep_graph(const graph::Graph& graph, HandedOver record, plan::Segment& segment);
/// Good until Python runs, or as long as somebody holds `segment.guards.kept()`.
std::shared_ptr<const KeptGraph> kept_graph(const plan::Segment& segment);
/// What the segment keeps is dropped.
void drop_graph(plan::Segment& segment);

struct KeptGraphs {
  size_t count, bytes;
};
/// Of the process.
KeptGraphs kept_graphs();

}  // namespace gramme::backend
