// Numbers and sizes that come out of data: what is assumed of them, and the tensors that hold them.
//
//   DataNumbers numbers(assumptions, allowed);
//   const Outcome& outcome = numbers.infer(call).outcome;   // on sizes that data decides
//   numbers.assume(condition);                              // a node of the graph checks it
//
// Nothing is taken back. A write to data ends only what was known of data: see forget_data(), and item_of().
#pragma once
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "meta/unbacked.h"
#include "value/value.h"

namespace gramme::trace {

class DataNumbers {
 public:
  using Answer = meta::Unbacked::Answer;

  DataNumbers(shape::Assumptions& assumptions, const meta::DataDependence& allowed)
      : assumptions_(assumptions), allowed_(allowed) {}
  DataNumbers(const DataNumbers&) = delete;

  // ---- what is assumed
  /// True if a call was inferred on data-dependent sizes.
  bool any() const { return unbacked_ != nullptr; }
  /// Infers the call; the answer is valid until the next one.
  const Answer& infer(const meta::Call& call);
  /// The program relies on the condition, which the graph checks.
  void assume(shape::Expr condition);
  /// Call after a write: forgets facts about tensors' data.
  void forget_data() {
    if (unbacked_) unbacked_->forget_data();
  }
  /// Keeps a condition on the results of the present call, until the call is in the graph.
  void wait(shape::Expr condition) { waiting_.push_back(condition); }
  std::vector<shape::Expr> take_waiting() { return std::exchange(waiting_, {}); }

  // ---- numbers and tensors, by number nodes of the segment's graph
  /// The number as a tensor of float64, or the tensor that it is an item of; null if there is none.
  value::Tensor* tensor_of(const graph::Node* number) const;
  void note_tensor(const graph::Node* number, value::Tensor* tensor) { tensors_[number] = tensor; }
  /// The tensor whose only item the number is; null if there is none, or if the tensor may hold another one: something
  /// was written since. `writes` counts the operations that wrote.
  value::Tensor* item_of(const graph::Node* number, size_t writes) const;
  void note_item(const graph::Node* number, value::Tensor* tensor, size_t writes) { items_[number] = {tensor, writes}; }

 private:
  struct Item {
    value::Tensor* tensor;
    size_t writes;
  };

  shape::Assumptions& assumptions_;
  const meta::DataDependence& allowed_;
  std::unique_ptr<meta::Unbacked> unbacked_;  // made at the first call on data-dependent sizes
  Answer answer_;
  std::vector<shape::Expr> assumed_before_;  // before any call needed one
  std::vector<shape::Expr> waiting_;
  std::unordered_map<const graph::Node*, value::Tensor*> tensors_;
  std::unordered_map<const graph::Node*, Item> items_;
};

}  // namespace gramme::trace
