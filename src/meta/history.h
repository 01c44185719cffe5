// Questions that a call alone does not answer: what the gradient or the tangent of a tensor is depends on all that was
// computed inside the transforms of torch.func. The calls made there are noted; the first such question runs those so
// far on fakes, in the levels that they entered themselves, a later one those since.
//
//   history.begin(node, node->call, node->record);  // a transform is entered, where none is open
//   history.add(node, node->call, node->record);    // each call inside, those that change modes too
//   const Outcome& outcome = history.infer(call, outside);
//   history.add(node, …);                           // the call's node
//
// What was inferred without the others must come out here too, or there is no answer. Outcomes are kept: the same calls
// in the same order are not run again.
#pragma once
#include <memory>

#include "meta/infer.h"

namespace gramme::meta {

class History {
 public:
  explicit History(shape::Assumptions& assumptions);
  ~History();
  History(const History&) = delete;

  /// The node's call runs in the thread's state of now. What is referred to must live as long as this.
  void begin(const graph::Node* node, const Call& call, const Record* const& record);
  /// The node's call runs in the state that those before it left.
  void add(const graph::Node* node, const Call& call, const Record* const& record);
  /// The call comes next. `outside`: of all transforms, so that it runs in the thread's state of now.
  const Outcome& infer(const Call& call, bool outside);
  /// The node with whose tensor an outcome says that its result shares storage.
  const graph::Node* node_of(int place) const;

 private:
  class Steps;
  std::unique_ptr<Steps> steps_;
};

}  // namespace gramme::meta
