// Inference of gradients and tangents, which depend on everything computed inside torch.func's transforms. Calls made
// there are noted. The first question about a gradient or tangent runs them on fakes, in the levels that they entered
// themselves; a later question runs only the new ones.
//
//   history.begin(node, node->call, node->record);  // a transform is entered, where none is open
//   history.add(node, node->call, node->record);    // each call inside, those that change modes too
//   const Outcome& outcome = history.infer(call, outside);
//   history.add(node, …);                           // the call's node
//
// Results must agree with what was inferred for each call alone, or there is no answer. Outcomes are kept: the same
// sequence of calls is not run again.
#pragma once
#include <memory>

#include "meta/infer.h"

namespace gramme::meta {

class History {
 public:
  explicit History(shape::Assumptions& assumptions);
  ~History();
  History(const History&) = delete;

  /// Notes a call that runs in the present thread state. References must outlive this object.
  void begin(const graph::Node* node, const Call& call, const Record* const& record);
  /// Notes a call that runs in the state left by earlier ones.
  void add(const graph::Node* node, const Call& call, const Record* const& record);
  /// Infers the next call. `outside`: it is outside all transforms, so it runs in the present thread state.
  const Outcome& infer(const Call& call, bool outside);
  /// The node for an outcome's Result::memory_of.
  const graph::Node* node_of(int place) const;

 private:
  class Steps;
  std::unique_ptr<Steps> steps_;
};

}  // namespace gramme::meta
