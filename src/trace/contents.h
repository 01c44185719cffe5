// Bounds of the number held by a tensor without dimensions: the interval it lies in at the segment's start, which is
// guarded, and how the segment changes it.
//
// Optimizers count steps in such tensors, and compute with them in Python. The graph reads the number itself where the
// program asks for it. Its bounds give bounds for what is computed from it, and decide comparisons.
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
    value::Tensor* start = nullptr;  // the input that the bounds are relative to, if any
    bool whole = false;              // a whole number: the input's (or 0) plus `added`
    double added = 0;
    std::vector<value::Tensor*> computed_of;  // further inputs it was computed from
    meta::Interval range;
    double now = 0;                 // present value, or an example
    value::Number* read = nullptr;  // by the program since it was last written
  };
  struct Write {
    value::Tensor* tensor;
    Content content;
  };
  /// Whether the input was written in the segment.
  using Written = std::function<bool(const value::Tensor*)>;

  /// Null if nothing is known.
  Content* of(value::Tensor* tensor, const Written& written);
  /// Records that the program read the content as this number.
  void note_read(Content& content, value::Number* number);
  /// The content that a graph node reads; null if it reads none.
  const Content* read_by(const graph::Node* node) const;

  /// What the call will write to tensors with known bounds.
  std::vector<Write> expected(const meta::Call& call, const std::vector<value::Tensor*>& leaves,
                              const std::vector<value::Number*>& numbers, const Written& written);
  void write(const std::vector<Write>& writes);
  /// Forgets the bounds of the memory that the tensor covers.
  void forget(value::Tensor* tensor);
  /// Records bounds for the result of a call on constants or known numbers.
  void note_made(const meta::Call& call, const std::vector<value::Tensor*>& leaves, value::Value* result,
                 const Written& written);

  /// The interval that the input's number is guarded to lie in at the start.
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
  /// Marks the interval of the content's input as one that must be guarded.
  void depend_on(const Content& content);
  Content* known(value::Tensor* tensor);
  static Content changed(const Content& before, bool adds, meta::Interval by, double now, bool narrow);

  std::unordered_map<const value::Tensor*, Content> contents_;  // by tensors that are no views
  std::unordered_map<const value::Tensor*, Start> starts_;
  std::vector<const value::Tensor*> used_;  // in order of use
  std::unordered_map<const graph::Node*, Content> reads_;
};

}  // namespace gramme::trace
