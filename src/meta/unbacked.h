// Infers calls that return or take data-dependent sizes and numbers.
//
// Such symbols have no hint. PyTorch's answers about them depend on everything assumed before, so a capture keeps one
// ShapeEnv for them, and their calls are not memoised.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "meta/infer.h"

namespace gramme::meta {

/// True if the call takes a data-dependent size or number.
bool takes_unbacked(const Call& call, const shape::Assumptions& assumptions);

/// Which data-dependent values graphs may have.
struct DataDependence {
  bool scalars = false;  // numbers: item()
  bool shapes = false;   // sizes: nonzero()
};

class Unbacked {
 public:
  Unbacked(shape::Assumptions& assumptions, const DataDependence& allowed);
  ~Unbacked();

  struct Answer {
    Outcome outcome;  // its guards never mention data-dependent numbers
    /// The ranges of the result's new symbols, numbered from symbol_count() on. Each is a number in the result, or a
    /// size or offset of a tensor.
    std::vector<shape::Range> made;
    /// Assumptions of the call, to be asserted before it in the graph.
    std::vector<shape::Expr> asserted;
    /// The undecidable condition on which the call failed, in PyTorch's words.
    std::string undecided;
  };
  Answer infer(const Call& call);
  /// Adds an assumption made by the program.
  void assume(shape::Expr condition);
  /// Forgets facts about tensors' data, after writes.
  void forget_data();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gramme::meta
