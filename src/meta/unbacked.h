// Calls whose results are of sizes that come out of data, or that take such sizes and numbers.
//
// The symbols of such numbers have no hint. What PyTorch says of them depends on all that was said before, so that a
// capture keeps one ShapeEnv for them, and no memo knows their calls.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "meta/infer.h"

namespace gramme::meta {

/// True if the call takes a size or a number that comes out of data.
bool takes_unbacked(const Call& call, const shape::Assumptions& assumptions);

/// What may come out of data in the graph.
struct DataDependence {
  bool scalars = false;  // numbers: item()
  bool shapes = false;   // sizes: nonzero()
};

class Unbacked {
 public:
  Unbacked(shape::Assumptions& assumptions, const DataDependence& allowed);
  ~Unbacked();

  struct Answer {
    Outcome outcome;  // its guards are about other numbers only
    /// Symbols that the result brings, numbered from symbol_count() on: what each may be. Each is a size or
    /// the offset of a tensor in the result, or a number in it.
    std::vector<shape::Range> made;
    /// What the call takes for granted: to be checked before it when the graph runs.
    std::vector<shape::Expr> asserted;
    /// The call decides by this, which nobody knows: PyTorch's words.
    std::string undecided;
  };
  Answer infer(const Call& call);
  /// The program has said so.
  void assume(shape::Expr condition);
  /// Tensors were written: what was found of their data is no more.
  void forget_data();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gramme::meta
