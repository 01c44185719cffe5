// Views made at once, without the dispatcher: of known sizes, or of sizes that follow from the source's at each call.
#pragma once
#include <limits>
#include <optional>

#include "native/aliases.h"
#include "native/recorder.h"
#include "native/tape.h"

namespace gramme::native {

/// A whole number among the arguments of a step: of the tape, or the same at every call.
struct Amount {
  NumberId number = -1;  // none: constant
  int64_t constant = 0;
  int64_t get(const Run& run) const { return number < 0 ? constant : run.numbers[number]; }
};

/// x[...]: one item of the key.
struct IndexItem {
  static constexpr int64_t kToTheEnd = std::numeric_limits<int64_t>::max();
  enum Kind : uint8_t { None, Ellipsis, Integer, Slice };
  Kind kind = None;
  Amount start, stop;  // Integer: start
  int64_t step = 1;
};

/// What one operator does to sizes and strides.
struct ViewStep {
  enum Kind : uint8_t {
    View,        // sizes
    Reshape,     // sizes; copies what is no view
    Contiguous,  // copies what is not contiguous
    Expand,      // sizes
    Transpose,   // a, b
    Permute,     // sizes: the dimensions
    Unsqueeze,   // a
    Piece,       // of tensor.split(sizes[0], a): the b-th of sizes[1] pieces
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
  std::vector<ViewStep> steps;  // not empty: these say what the sizes are
  bool by_operators = false;    // PyTorch's own views: someone may look at bases and version counters
  // For steps that are carried out past the operators:
  int32_t remembered = -1;        // into Run::remembered
  std::vector<NumberId> numbers;  // that they read
};

/// A tensor on the memory of `source`, past the dispatcher; `offset` from the source's.
at::Tensor make_view(const at::Tensor& source, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset);

const View& view_of(const Instruction& instruction);
/// Makes calls remember what a view's steps came to. `remembered` counts those of the tape that remember something.
void remember_steps(Instruction& instruction, int32_t& remembered);
/// Makes the instruction a view by the step, by PyTorch's operators.
void bind_index(Instruction& instruction, Register source, Register target, ViewStep step);
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

/// An operator whose results are views becomes one View per result where that can be. A view made past the dispatcher
/// does not know its base, nor do they share a version counter: nobody may look at that.
std::vector<Instruction> with_views(std::vector<Instruction> instructions, const Recorder& recorder,
                                    const Aliases& aliases);
/// Views of views become views of what is no view; those nobody reads are dropped. `read`: by register, is it in the
/// output?
void collapse_views(std::vector<Instruction>& instructions, std::vector<bool> read);

}  // namespace gramme::native
