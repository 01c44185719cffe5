// Which ints, floats, sizes and strides of the program vary: for a capture, those that differ from earlier captures, or
// that the program or a setting says so of. All others are constants that are guarded.
//
//   Value* number = numbers.at(object, source, inliner);   // a Number if it varies, else a Constant
//   numbers.specialize(number);                            // a constant from now on
//   numbers.sizes(tensor, record, source, position);       // symbols for the sizes that vary
//
// What was decided is not taken back within a capture. Later captures are told of it (interp/capture.cpp).
#pragma once
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "guards/fact_list.h"
#include "trace/inliner.h"
#include "trace/policy.h"
#include "trace/shapes.h"
#include "trace/values.h"

namespace gramme::trace {

class VaryingNumbers {
 public:
  VaryingNumbers(const Policy& policy, Values& values, guards::FactList& facts, Shapes& shapes, source::Pool& pool)
      : policy_(policy), values_(values), facts_(facts), shapes_(shapes), pool_(pool) {}
  VaryingNumbers(const VaryingNumbers&) = delete;

  /// The value of a real number: a Constant, or a Number if it varies. `inliner` may be null.
  Value* at(PyObject* object, const Source* source, Inliner* inliner);
  /// A symbol for each size that varies, null for each that does not; empty if nothing varies, strides included. 0 is a
  /// constant. So is 1, unless the size had another value and the graph runs as it is: compilers, like PyTorch's front
  /// end, always distinguish 1.
  std::vector<shape::Expr> sizes(PyObject* tensor, const meta::Record* record, const Source* source,
                                 const graph::Position* asked);
  /// A Number, or a Constant if the expression has only one possible value.
  Value* expression(shape::Expr e);

  /// The number at its source is a constant from now on.
  void specialize(const value::Number* number);
  /// True if an earlier capture needed a size in the expression as a constant.
  bool was_needed(shape::Expr e) const;
  /// Notes that the capture looked into a torch.nn.Module there; numbers below it rarely differ between calls.
  void note_module(const Source* source) { modules_.insert(source); }

  /// Sources of numbers that were specialised, and of numbers that were captured as varying.
  const std::vector<const Source*>& specialized() const { return specialized_; }
  const std::vector<const Source*>& varying() const { return varying_; }
  /// Sources of specialised floats that were 0: a running maximum or sum starts at 0 and may vary afterwards.
  const std::vector<const Source*>& zeros() const { return zeros_; }
  /// True if some of them are of an optimizer's param_groups or state.
  bool has_of_optimizer() const { return of_optimizer_; }

 private:
  bool varies(PyObject* object, const Source* source) const;
  bool is_known_constant(const Source* source) const;
  bool is_below_module(const Source* source) const;
  bool strides_vary(const meta::Record* record, const Source* source);
  bool decide_special(const Owned<>& predicates, shape::Expr size, const graph::Position* asked);
  shape::Expr unbacked_size(const Source* size, shape::Range range, int64_t now, PyObject* id);

  const Policy& policy_;
  Values& values_;
  guards::FactList& facts_;
  Shapes& shapes_;
  source::Pool& pool_;
  std::vector<const Source*> specialized_, zeros_, varying_;
  bool of_optimizer_ = false;
  std::unordered_set<const Source*> modules_;
  std::unordered_map<std::string, shape::Expr> sizes_by_id_;  // sizes marked unbacked
};

}  // namespace gramme::trace
