// The instruction for a view: with fixed sizes, or with steps that compute sizes from the source's at each call.
#pragma once
#include <limits>

#include "tape/tape.h"

namespace gramme::native {

/// A whole number among a step's arguments: computed by the tape, or constant.
struct Amount {
  NumberId number = -1;  // -1: constant
  int64_t constant = 0;
  int64_t get(const Run& run) const { return number < 0 ? constant : run.numbers[number]; }
};

/// One item of the key in x[...].
struct IndexItem {
  static constexpr int64_t kToTheEnd = std::numeric_limits<int64_t>::max();
  enum Kind : uint8_t { None, Ellipsis, Integer, Slice };
  Kind kind = None;
  Amount start, stop;  // Integer: start
  int64_t step = 1;
};

/// The effect of one operator on sizes and strides.
struct ViewStep {
  enum Kind : uint8_t {
    View,        // sizes
    Reshape,     // sizes; copies if it cannot be a view
    Contiguous,  // copies if not contiguous
    Expand,      // sizes
    Transpose,   // a, b
    Permute,     // sizes: the dimensions
    Unsqueeze,   // a
    Piece,       // the b-th of sizes[1] pieces of tensor.split(sizes[0], a)
    Index,       // items
  };
  Kind kind;
  int64_t a = 0, b = 0;
  std::vector<Amount> sizes = {};
  std::vector<IndexItem> items = {};
};

struct View final : Bound {
  Register source, target;
  c10::DimVector sizes, strides;
  int64_t offset = 0;           // from the source's
  std::vector<ViewStep> steps;  // if not empty, these determine sizes and strides
  bool by_operators = false;    // made by PyTorch's operators: bases and version counters can be observed
  // For steps carried out without the operators:
  int32_t remembered = -1;        // into Run::remembered
  std::vector<NumberId> numbers;  // numbers that the steps read
};

inline const View& view_of(const Instruction& instruction) { return static_cast<const View&>(*instruction.bound); }

/// Calls `visit` with each number that the view reads.
template <class Visit>
void each_number(const View& view, Visit&& visit) {
  auto amount = [&](const Amount& amount) {
    if (amount.number >= 0) visit(amount.number);
  };
  for (const ViewStep& step : view.steps) {
    for (const Amount& size : step.sizes) amount(size);
    for (const IndexItem& item : step.items) amount(item.start), amount(item.stop);
  }
}

}  // namespace gramme::native
