// Decisions by present sizes, memory layouts, and TensorIterator's rules for broadcasting and result strides.
#include "meta/geometry.h"

#include <algorithm>

namespace gramme::meta {

Expr product(const Extents& extents, size_t from, size_t to) {
  Expr whole = number(1);
  for (size_t d = from; d < std::min(to, extents.size()); ++d) whole = times(whole, extents[d]);
  return whole;
}

Geometry::Geometry(const Record& record) : offset(record.storage_offset.expr()) {
  for (shape::SymInt size : record.sizes) sizes.push_back(size.expr());
  for (shape::SymInt stride : record.strides) strides.push_back(stride.expr());
}

// ---- decisions

Decisions::Decisions(shape::Assumptions& now) : now_(now) {
  for (size_t k = 0; k < now.symbol_count(); ++k)
    learnt_.add_symbol({}, now.hint(shape::symbol(static_cast<int64_t>(k))));
}

int64_t Decisions::value(Expr e) {
  const std::optional<int64_t> value = now_.hint(known(e));
  if (!value) throw NoRule();
  return *value;
}

bool Decisions::holds(Expr condition) {
  if (const std::optional<bool> decided = learnt_.decide(known(condition))) return *decided;
  const bool holds = value(condition) != 0;
  learn(holds ? condition : known(negation(condition)));
  return holds;
}

void Decisions::require(Expr condition) {
  if (!holds(condition)) throw NoRule();
}

void Decisions::require_equal(Expr a, Expr b) {
  if (!equal(a, b)) throw NoRule();
}

void Decisions::require_elements(const Extents& sizes) {
  for (Expr size : sizes) require(at_least(size, number(1)));
}

void Decisions::learn(Expr condition) {
  guards_.push_back(condition);
  learnt_.learn(condition);
}

// ---- layouts

Extents standard_strides(const Extents& sizes) {
  Extents strides(sizes.size());
  Expr stride = number(1);
  for (size_t d = sizes.size(); d-- > 0; stride = times(stride, sizes[d])) strides[d] = stride;
  return strides;
}

Geometry contiguous(Extents sizes) {
  Geometry made;
  made.strides = standard_strides(sizes);
  made.sizes = std::move(sizes);
  return made;
}

namespace {

/// Requires these strides. Returns false, and requires nothing, if the present strides differ.
bool has_strides(const Geometry& g, const Extents& strides, Decisions& decide) {
  for (size_t d = 0; d < g.dim(); ++d)
    if (decide.value(g.strides[d]) != decide.value(strides[d])) return false;
  for (size_t d = 0; d < g.dim(); ++d) decide.require_equal(g.strides[d], strides[d]);
  return true;
}

using Order = std::vector<size_t>;  // dimensions, innermost first

Order standard_order(size_t dim) {
  Order order(dim);
  for (size_t d = 0; d < dim; ++d) order[d] = dim - 1 - d;
  return order;
}

/// Channels-last order for four or five dimensions.
Order channels_last_order(size_t dim) { return dim == 4 ? Order{1, 3, 2, 0} : Order{1, 4, 3, 2, 0}; }

/// True if the strides are dense in this order of dimensions, ignoring dimensions of size one.
bool follows(const Geometry& g, const Order& order, Decisions& decide) {
  Expr stride = number(1);
  for (size_t d : order) {
    if (decide.value(g.strides[d]) == decide.value(stride)) {
      decide.require_equal(g.strides[d], stride);
    } else if (decide.is_one(g.sizes[d])) {
      continue;
    } else {
      decide.require(not_equal(g.strides[d], stride));
      return false;
    }
    stride = times(stride, g.sizes[d]);
  }
  return true;
}

bool is_channels_last(const Geometry& g, Decisions& decide) {
  return (g.dim() == 4 || g.dim() == 5) && follows(g, channels_last_order(g.dim()), decide);
}

/// The dimensions by present strides, smallest first; of equal strides those of size one first.
Order innermost_first(const Geometry& g, Decisions& decide) {
  Order order = standard_order(g.dim());
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(decide.value(g.strides[a]), decide.value(g.sizes[a])) <
           std::pair(decide.value(g.strides[b]), decide.value(g.sizes[b]));
  });
  return order;
}

}  // namespace

bool is_standard(const Geometry& g, Decisions& decide) { return has_strides(g, standard_strides(g.sizes), decide); }

bool is_dense(const Geometry& g, Decisions& decide) {
  Extents dense(g.dim());
  Expr stride = number(1);
  for (size_t d : innermost_first(g, decide)) {
    dense[d] = stride;
    stride = times(stride, g.sizes[d]);
  }
  return has_strides(g, dense, decide);
}

bool is_contiguous(const Geometry& g, Decisions& decide) { return follows(g, standard_order(g.dim()), decide); }

Expr is_not_contiguous(const Geometry& g) {
  const Extents strides = standard_strides(g.sizes);
  Expr any = shape::truth(false);
  for (size_t d = 0; d < g.dim() && any; ++d) {
    const Expr apart = not_equal(g.strides[d], strides[d]), several = not_equal(g.sizes[d], number(1));
    const Expr differs = apart && several ? both(apart, several) : nullptr;
    any = differs ? either(any, differs) : nullptr;
  }
  return any;
}

/// c10's is_channels_last_strides_2d and 3d.
bool suggests_channels_last(const Geometry& g, Decisions& decide) {
  if (g.dim() != 4 && g.dim() != 5) return false;
  if (is_standard(g, decide)) return false;
  Expr least = number(0);
  if (decide.equal(g.strides[1], number(0))) return false;
  for (size_t d : channels_last_order(g.dim())) {
    if (decide.less(g.strides[d], least)) return false;
    if (d == 0 && decide.equal(least, g.strides[1])) return false;
    least = decide.is_one(g.sizes[d]) ? g.strides[d] : times(g.strides[d], g.sizes[d]);
  }
  return true;
}

// ---- TensorIterator

Extents broadcast(const Extents& a, const Extents& b, Decisions& decide) {
  const Extents& longer = a.size() >= b.size() ? a : b;
  const Extents& other = a.size() >= b.size() ? b : a;
  Extents sizes = longer;
  const size_t more = longer.size() - other.size();
  for (size_t d = 0; d < other.size(); ++d) {
    Expr& size = sizes[more + d];
    if (other[d] == size || is_constant(other[d], 1)) continue;
    if (is_constant(size, 1))
      size = other[d];
    else if (decide.value(size) == decide.value(other[d]))
      decide.require_equal(size, other[d]);
    else if (decide.is_one(size))
      size = other[d];
    else
      decide.require(shape::equal(other[d], number(1)));
  }
  return sizes;
}

namespace {

/// The strides of an operand broadcast to these sizes: zero where it is repeated.
Extents strides_among(const Geometry& operand, const Extents& sizes, Decisions& decide) {
  const size_t more = sizes.size() - operand.dim();
  Extents strides(sizes.size(), number(0));
  for (size_t d = 0; d < operand.dim(); ++d) {
    const bool repeated =
        operand.sizes[d] != sizes[more + d] && decide.is_one(operand.sizes[d]) && !decide.is_one(sizes[more + d]);
    if (!repeated) strides[more + d] = operand.strides[d];
  }
  return strides;
}

/// TensorIterator's order of dimensions.
class Reordering {
 public:
  /// `no_ties`: throws NoRule for equal strides, whose order may depend on operands that are not considered.
  Reordering(const Extents& sizes, const std::vector<Extents>& strides, bool no_ties, Decisions& decide)
      : sizes_(sizes), strides_(strides), no_ties_(no_ties), decide_(decide) {}

  Order found() {
    Order order = standard_order(sizes_.size());
    for (size_t i = 1; i < order.size(); ++i) {
      for (size_t at = i, below = i; below-- > 0;) {
        const int compared = compare(order[below], order[at]);
        if (compared < 0) break;
        if (compared == 0) continue;
        std::swap(order[below], order[at]);
        at = below;
      }
    }
    return order;
  }

 private:
  int compare(size_t a, size_t b) {
    for (const Extents& strides : strides_) {
      if (decide_.equal(strides[a], number(0)) || decide_.equal(strides[b], number(0))) continue;
      if (decide_.less(strides[a], strides[b])) return -1;
      if (decide_.less(strides[b], strides[a])) return 1;
      if (no_ties_) throw NoRule();
      if (decide_.less(sizes_[b], sizes_[a])) return 1;
    }
    return 0;
  }

  const Extents& sizes_;
  const std::vector<Extents>& strides_;
  bool no_ties_;
  Decisions& decide_;
};

bool all(const std::vector<Geometry>& operands, bool (*is)(const Geometry&, Decisions&), Decisions& decide) {
  return std::all_of(operands.begin(), operands.end(), [&](const Geometry& g) { return is(g, decide); });
}

bool equal_sizes(const Extents& a, const Extents& b, Decisions& decide) {
  if (a.size() != b.size()) return false;
  for (size_t d = 0; d < a.size(); ++d)
    if (!decide.equal(a[d], b[d])) return false;
  return true;
}

Geometry in_order(const Extents& sizes, const Order& innermost_first) {
  Geometry made;
  made.sizes = sizes;
  made.strides.resize(sizes.size());
  Expr stride = number(1);
  for (size_t d : innermost_first) {
    made.strides[d] = stride;
    stride = times(stride, sizes[d]);
  }
  return made;
}

}  // namespace

Geometry pointwise(const std::vector<Geometry>& operands, bool mixed, Decisions& decide) {
  if (operands.empty()) throw NoRule();
  Extents sizes = operands[0].sizes;
  for (const Geometry& other : operands) sizes = broadcast(sizes, other.sizes, decide);
  if (all(operands, is_standard, decide)) return contiguous(sizes);
  bool same = !mixed || sizes.empty();
  for (const Geometry& operand : operands) same = same && equal_sizes(operand.sizes, sizes, decide);
  if (same) {
    if (all(operands, is_contiguous, decide)) return contiguous(sizes);
    if (all(operands, is_channels_last, decide)) return in_order(sizes, channels_last_order(sizes.size()));
    const Geometry& first = operands[0];
    const bool alike = std::all_of(operands.begin(), operands.end(),
                                   [&](const Geometry& g) { return has_strides(g, first.strides, decide); });
    if (alike && is_dense(first, decide)) {
      Geometry made = first;
      made.offset = number(0);
      return made;
    }
  }
  std::vector<Extents> strides;
  for (const Geometry& operand : operands) strides.push_back(strides_among(operand, sizes, decide));
  return in_order(sizes, Reordering(sizes, strides, same, decide).found());
}

/// Uses at::infer_dense_strides for tensors that are not dense.
Geometry like(const Geometry& g, Decisions& decide) {
  Geometry made = g;
  made.offset = number(0);
  if (is_standard(g, decide) || is_dense(g, decide)) return made;
  return in_order(g.sizes, Reordering(g.sizes, {g.strides}, true, decide).found());
}

}  // namespace gramme::meta
