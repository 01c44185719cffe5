// Sizes and strides of results as PyTorch computes them, over expressions: each decision that it takes by a size is
// taken by what the size is now, and kept as a guard. Only meta's own sources include this.
#pragma once
#include <optional>
#include <vector>

#include "meta/record.h"

namespace gramme::meta {

using shape::Expr;

/// A rule does not know the answer.
struct NoRule {};

// ---- arithmetic; throws NoRule where there is no form

inline Expr known(Expr e) {
  if (!e) throw NoRule();
  return e;
}
inline Expr number(int64_t value) { return shape::constant(value); }
inline Expr plus(Expr a, Expr b) { return known(shape::add(a, b)); }
inline Expr minus(Expr a, Expr b) { return known(shape::subtract(a, b)); }
inline Expr times(Expr a, Expr b) { return known(shape::multiply(a, b)); }

using Extents = std::vector<Expr>;
Expr product(const Extents& extents, size_t from = 0, size_t to = SIZE_MAX);

struct Geometry {
  Extents sizes, strides;
  Expr offset = number(0);

  Geometry() = default;
  explicit Geometry(const Record& record);
  size_t dim() const { return sizes.size(); }
};

class Decisions {
 public:
  /// Decides for a call whose symbols have these values.
  explicit Decisions(shape::Assumptions& now);

  int64_t value(Expr e);
  /// True if the condition is true. Whichever it is now stays so.
  bool holds(Expr condition);
  bool equal(Expr a, Expr b) { return a == b || holds(shape::equal(a, b)); }
  bool is_one(Expr e) { return equal(e, number(1)); }
  bool less(Expr a, Expr b) { return holds(shape::less(a, b)); }
  /// The call is another one, an error perhaps, where it is false.
  void require(Expr condition);
  void require_equal(Expr a, Expr b);
  /// Sizes are one at least: what PyTorch does with empty tensors no rule knows.
  void require_elements(const Extents& sizes);

  const std::vector<Expr>& guards() const { return guards_; }

 private:
  void learn(Expr condition);

  shape::Assumptions& now_;
  shape::Assumptions learnt_;
  std::vector<Expr> guards_;
};

// ---- layouts

Extents standard_strides(const Extents& sizes);
/// A new tensor, contiguous.
Geometry contiguous(Extents sizes);
/// True if its strides are those of a new tensor, also where a size is one. True is sure and a guard; false is neither.
bool is_standard(const Geometry& g, Decisions& decide);
/// True if its elements are dense in memory, in some order of the dimensions. As above.
bool is_dense(const Geometry& g, Decisions& decide);
/// What PyTorch calls contiguous.
bool is_contiguous(const Geometry& g, Decisions& decide);
/// That it is not, of any sizes: one guard for all ways in which it may not be. Null if it has no form.
Expr is_not_contiguous(const Geometry& g);
/// True if channels-last is what PyTorch would make of it.
bool suggests_channels_last(const Geometry& g, Decisions& decide);
/// A new tensor in the same order of dimensions (torch.preserve_format).
Geometry like(const Geometry& g, Decisions& decide);

// ---- operators

Extents broadcast(const Extents& a, const Extents& b, Decisions& decide);
/// What TensorIterator makes of the operands. `mixed`: there are Python numbers besides.
Geometry pointwise(const std::vector<Geometry>& operands, bool mixed, Decisions& decide);
Geometry expanded(const Geometry& g, const Extents& sizes, Decisions& decide);
/// With what stands for -1.
Extents inferred_sizes(const Geometry& g, Extents sizes, Decisions& decide);
/// None if it takes a copy.
std::optional<Geometry> viewed(const Geometry& g, const Extents& sizes, Decisions& decide);
Geometry reshaped(const Geometry& g, const Extents& sizes, Decisions& decide);
Geometry permuted(const Geometry& g, const std::vector<size_t>& order);
Geometry sliced(const Geometry& g, size_t dim, Expr start, Expr stop, int64_t step, Decisions& decide);
Geometry selected(const Geometry& g, size_t dim, Expr index, Decisions& decide);
Geometry unsqueezed(const Geometry& g, size_t dim);
Geometry without(const Geometry& g, size_t dim);
Geometry joined(const std::vector<Geometry>& parts, size_t dim, Decisions& decide);

}  // namespace gramme::meta
