// PyTorch's algorithms for sizes and strides of results, over expressions. Each decision by a size uses its present
// value and becomes a guard. Only meta's own sources include this.
#pragma once
#include <optional>
#include <vector>

#include "meta/record.h"

namespace gramme::meta {

using shape::Expr;

/// Thrown by a rule that does not know the answer.
struct NoRule {};

// ---- arithmetic; throws NoRule if a result has no form

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
  /// Decides by these values of the call's symbols.
  explicit Decisions(shape::Assumptions& now);

  int64_t value(Expr e);
  /// The condition's present truth, which becomes a guard.
  bool holds(Expr condition);
  bool equal(Expr a, Expr b) { return a == b || holds(shape::equal(a, b)); }
  bool is_one(Expr e) { return equal(e, number(1)); }
  bool less(Expr a, Expr b) { return holds(shape::less(a, b)); }
  /// Adds a condition without which the call would be a different one, perhaps an error.
  void require(Expr condition);
  void require_equal(Expr a, Expr b);
  /// Requires that all sizes are at least one, since rules do not cover empty tensors.
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
/// True if the strides equal a new tensor's, including dimensions of size one. True becomes a guard; false is neither
/// certain nor a guard.
bool is_standard(const Geometry& g, Decisions& decide);
/// True if the elements are dense in some order of dimensions; as above.
bool is_dense(const Geometry& g, Decisions& decide);
/// True if PyTorch considers it contiguous; as above.
bool is_contiguous(const Geometry& g, Decisions& decide);
/// The condition that it is not contiguous, as one guard for all ways; null if it has no form.
Expr is_not_contiguous(const Geometry& g);
/// True if PyTorch's suggested memory format is channels-last.
bool suggests_channels_last(const Geometry& g, Decisions& decide);
/// A new tensor in the same order of dimensions (torch.preserve_format).
Geometry like(const Geometry& g, Decisions& decide);

// ---- operators

Extents broadcast(const Extents& a, const Extents& b, Decisions& decide);
/// The result of TensorIterator for these operands. `mixed`: there are also Python numbers.
Geometry pointwise(const std::vector<Geometry>& operands, bool mixed, Decisions& decide);
Geometry expanded(const Geometry& g, const Extents& sizes, Decisions& decide);
/// The sizes with -1 replaced.
Extents inferred_sizes(const Geometry& g, Extents sizes, Decisions& decide);
/// The view's geometry; nullopt if it needs a copy.
std::optional<Geometry> viewed(const Geometry& g, const Extents& sizes, Decisions& decide);
Geometry reshaped(const Geometry& g, const Extents& sizes, Decisions& decide);
Geometry permuted(const Geometry& g, const std::vector<size_t>& order);
Geometry sliced(const Geometry& g, size_t dim, Expr start, Expr stop, int64_t step, Decisions& decide);
Geometry selected(const Geometry& g, size_t dim, Expr index, Decisions& decide);
Geometry unsqueezed(const Geometry& g, size_t dim);
Geometry without(const Geometry& g, size_t dim);
Geometry joined(const std::vector<Geometry>& parts, size_t dim, Decisions& decide);

}  // namespace gramme::meta
