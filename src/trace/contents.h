// Bounds of the number in a tensor without dimensions: between what it lies where the segment begins, which is
// guarded, and what the segment made of it.
//
// Optimizers count steps in such tensors and compute with Python's numbers of them. The number itself is read in the
// graph, where the program asks for it; what is known bounds what is computed of it, and decides comparisons.
#pragma once
#include <functional>
#include <unordered_map>
#include <vector>

#include "meta/argument.h"
#include "value/value.h"

namespace gramme::trace {

class Contents {
 public:
  struct Content {
    value::Tensor* start = nullptr;  // the input by whose content it is known, if any
    bool whole = false;              // a whole number: that content, or 0, and `added`
    double added = 0;
    std::vector<value::Tensor*> computed_of;  // inputs, besides
    meta::Interval range;
    double now = 0;                 // or an example
    value::Number* read = nullptr;  // by the program since it was last written
  };
  struct Write {
    value::Tensor* tensor;
    Content content;
  };
  /// Tells whether the input was written in the segment.
  using Written = std::function<bool(const value::Tensor*)>;

  /// Null if nothing is known.
  Content* of(value::Tensor* tensor, const Written& written);
  /// The program reads it as the number.
  void note_read(Content& content, value::Number* number);
  /// The content that a node of the graph reads; null if it reads none.
  const Content* read_by(const graph::Node* node) const;

  /// What the call is going to write to tensors of which something is known.
  std::vector<Write> expected(const meta::Call& call, const std::vector<value::Tensor*>& leaves,
                              const std::vector<value::Number*>& numbers, const Written& written);
  void write(const std::vector<Write>& writes);
  /// Nothing is known any more of what lies where the tensor does.
  void forget(value::Tensor* tensor);
  /// What a call has made of constants, or computed of what is known.
  void note_made(const meta::Call& call, const std::vector<value::Tensor*>& leaves, value::Value* result,
                 const Written& written);

  /// What the input holds at the start.
  meta::Interval at_start(const value::Tensor* input) const { return starts_.at(input).range; }
  void narrow(const value::Tensor* input, meta::Interval range) { starts_.at(input).range = range; }
  /// Calls `visit` with each input whose content the program depends on, its range, and whether it is whole.
  template <class Visit>
  void each_start(Visit&& visit) const {
    for (const value::Tensor* input : used_) visit(input, starts_.at(input).range, starts_.at(input).whole);
  }

 private:
  struct Start {
    meta::Interval range;
    bool whole = false, used = false;
  };
  Content computed(const meta::Call& call, const std::vector<value::Tensor*>& leaves, const Written& written);
  /// What the program does depends on what the content's input lies between.
  void depend_on(const Content& content);
  Content* known(value::Tensor* tensor);
  static Content changed(const Content& before, bool adds, meta::Interval by, double now, bool narrow);

  std::unordered_map<const value::Tensor*, Content> contents_;  // of tensors that are no views
  std::unordered_map<const value::Tensor*, Start> starts_;
  std::vector<const value::Tensor*> used_;  // in the order in which they were
  std::unordered_map<const graph::Node*, Content> reads_;
};

}  // namespace gramme::trace
