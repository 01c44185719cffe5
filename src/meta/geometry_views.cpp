// Sizes and strides of views, concatenations and stacks.
#include "meta/geometry.h"

namespace gramme::meta {

Geometry expanded(const Geometry& g, const Extents& sizes, Decisions& decide) {
  if (sizes.size() < g.dim()) throw NoRule();
  const size_t more = sizes.size() - g.dim();
  Geometry made;
  made.offset = g.offset;
  made.sizes = sizes;
  made.strides.resize(sizes.size());
  for (size_t d = sizes.size(); d-- > 0;) {
    const bool is_new = d < more;
    const Expr size = is_new ? number(1) : g.sizes[d - more];
    Expr stride = !is_new                ? g.strides[d - more]
                  : d + 1 < sizes.size() ? times(made.sizes[d + 1], made.strides[d + 1])
                                         : number(1);
    if (is_constant(sizes[d], -1)) {
      if (is_new) throw NoRule();
      made.sizes[d] = size;
    } else if (!decide.equal(size, sizes[d])) {
      decide.require(shape::equal(size, number(1)));
      decide.require(at_least(sizes[d], number(1)));
      stride = number(0);
    }
    made.strides[d] = g.dim() ? stride : number(0);  // in a ShapeEnv, fakes of sizes that are 1 have others
  }
  return made;
}

Extents inferred_sizes(const Geometry& g, Extents sizes, Decisions& decide) {
  Expr* inferred = nullptr;
  Expr others = number(1);
  for (Expr& size : sizes) {
    if (is_constant(size, -1)) {
      if (inferred) throw NoRule();
      inferred = &size;
      continue;
    }
    decide.require(at_least(size, number(1)));
    others = times(others, size);
  }
  const Expr elements = product(g.sizes);
  if (!inferred) {
    decide.require_equal(elements, others);
    return sizes;
  }
  decide.require_equal(known(modulo(elements, others)), number(0));
  *inferred = known(floor_divide(elements, others));
  decide.require(at_least(*inferred, number(1)));
  return sizes;
}

namespace {

/// at::detail::computeStride: conditions on a chunk of memory summarise the results of its loops.
class ViewStrides {
 public:
  ViewStrides(const Geometry& g, const Extents& sizes, Decisions& decide)
      : g_(g), sizes_(sizes), decide_(decide), strides_(sizes.size()), left_(sizes.size()) {}

  std::optional<Extents> found() {
    Expr base = g_.strides.back(), elements = number(1);
    for (size_t d = g_.dim(); d-- > 0;) {
      elements = times(elements, g_.sizes[d]);
      if (d > 0 && goes_on(d - 1, times(elements, base))) continue;
      if (!place(elements, base, d == 0)) return std::nullopt;
      if (d > 0) base = g_.strides[d - 1];
      elements = number(1);
    }
    return left_ == 0 ? std::optional(strides_) : std::nullopt;
  }

 private:
  bool goes_on(size_t outer, Expr stride) {
    if (decide_.value(g_.strides[outer]) == decide_.value(stride)) {
      decide_.require_equal(g_.strides[outer], stride);
      return true;
    }
    if (decide_.is_one(g_.sizes[outer])) return true;
    decide_.require(not_equal(g_.strides[outer], stride));
    return false;
  }

  /// Places dimensions of the view in one chunk of memory; false if they do not fit.
  bool place(Expr elements, Expr base, bool is_last) {
    if (!fits_now(elements)) return fits(elements);
    Expr placed = number(1);
    while (left_ > 0 && (decide_.value(placed) < decide_.value(elements) || decide_.value(sizes_[left_ - 1]) == 1)) {
      strides_[--left_] = times(placed, base);
      placed = times(placed, sizes_[left_]);
    }
    decide_.require_equal(placed, elements);
    if (left_ > 0) decide_.require(not_equal(sizes_[left_ - 1], number(1)));
    return !is_last || left_ == 0;
  }

  bool fits_now(Expr elements) {
    int64_t placed = 1;
    size_t left = left_;
    while (left > 0 && (placed < decide_.value(elements) || decide_.value(sizes_[left - 1]) == 1))
      placed *= decide_.value(sizes_[--left]);
    return placed == decide_.value(elements);
  }

  bool fits(Expr elements) {
    Expr placed = number(1);
    size_t left = left_;
    while (left > 0 && (decide_.less(placed, elements) || decide_.is_one(sizes_[left - 1])))
      placed = times(placed, sizes_[--left]);
    return decide_.equal(placed, elements);
  }

  const Geometry& g_;
  const Extents& sizes_;
  Decisions& decide_;
  Extents strides_;
  size_t left_;
};

}  // namespace

std::optional<Geometry> viewed(const Geometry& g, const Extents& sizes, Decisions& decide) {
  Geometry made;
  made.offset = g.offset;
  made.sizes = sizes;
  if (g.dim() == 0) {
    made.strides.assign(sizes.size(), number(1));
  } else if (is_standard(g, decide)) {
    made.strides = standard_strides(sizes);
  } else if (auto strides = ViewStrides(g, sizes, decide).found()) {
    made.strides = std::move(*strides);
  } else {
    return std::nullopt;
  }
  return made;
}

Geometry reshaped(const Geometry& g, const Extents& sizes, Decisions& decide) {
  std::optional<Geometry> view = viewed(g, sizes, decide);
  return view ? std::move(*view) : contiguous(sizes);
}

Geometry permuted(const Geometry& g, const std::vector<size_t>& order) {
  Geometry made;
  made.offset = g.offset;
  for (size_t d : order) {
    made.sizes.push_back(g.sizes[d]);
    made.strides.push_back(g.strides[d]);
  }
  return made;
}

Geometry sliced(const Geometry& g, size_t dim, Expr start, Expr stop, int64_t step, Decisions& decide) {
  const Expr length = g.sizes[dim];
  auto within = [&](Expr at) {
    if (decide.less(at, number(0))) {
      at = plus(at, length);
      if (decide.less(at, number(0))) return number(0);
    }
    return decide.less(length, at) ? length : at;
  };
  const Expr from = start ? within(start) : number(0);
  Expr to = stop ? within(stop) : length;
  if (decide.less(to, from)) to = from;
  Geometry made = g;
  made.sizes[dim] = known(floor_divide(plus(minus(to, from), number(step - 1)), number(step)));
  made.strides[dim] = times(g.strides[dim], number(step));
  made.offset = plus(g.offset, times(from, g.strides[dim]));
  return made;
}

Geometry selected(const Geometry& g, size_t dim, Expr index, Decisions& decide) {
  if (decide.less(index, number(0))) index = plus(index, g.sizes[dim]);
  decide.require(at_least(index, number(0)));
  decide.require(shape::less(index, g.sizes[dim]));
  Geometry made = without(g, dim);
  made.offset = plus(g.offset, times(index, g.strides[dim]));
  return made;
}

Geometry unsqueezed(const Geometry& g, size_t dim) {
  Geometry made = g;
  const Expr stride = dim < g.dim() ? times(g.sizes[dim], g.strides[dim]) : number(1);
  made.sizes.insert(made.sizes.begin() + static_cast<ptrdiff_t>(dim), number(1));
  made.strides.insert(made.strides.begin() + static_cast<ptrdiff_t>(dim), stride);
  return made;
}

Geometry without(const Geometry& g, size_t dim) {
  Geometry made = g;
  made.sizes.erase(made.sizes.begin() + static_cast<ptrdiff_t>(dim));
  made.strides.erase(made.strides.begin() + static_cast<ptrdiff_t>(dim));
  return made;
}

Geometry joined(const std::vector<Geometry>& parts, size_t dim, Decisions& decide) {
  if (parts.empty()) throw NoRule();
  Extents sizes = parts[0].sizes;
  bool channels_last = true;
  for (const Geometry& part : parts) {
    if (part.dim() != sizes.size()) throw NoRule();
    channels_last = channels_last && suggests_channels_last(part, decide);
    if (&part == parts.data()) continue;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (d != dim) decide.require_equal(sizes[d], part.sizes[d]);
    }
    sizes[dim] = plus(sizes[dim], part.sizes[dim]);
  }
  if (channels_last) throw NoRule();
  return contiguous(sizes);
}

}  // namespace gramme::meta
