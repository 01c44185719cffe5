// Rules for views, indexing, concatenation and stacking.
#include <c10/core/ScalarType.h>

#include "meta/rule_list.h"

namespace gramme::meta::rules {

namespace {

void add_view(Operands& call, const Geometry& g, const Extents& sizes) {
  std::optional<Geometry> made = viewed(g, sizes, call.decide);
  if (!made) throw NoRule();
  call.results.push_back(std::move(*made));
}

}  // namespace

void view(Operands& call) {
  const Geometry g = call.tensor(0);
  add_view(call, g, inferred_sizes(g, call.integers(1), call.decide));
}

void reshape(Operands& call) {
  const Geometry g = call.tensor(0);
  call.results.push_back(reshaped(g, inferred_sizes(g, call.integers(1), call.decide), call.decide));
}

void view_as(Operands& call) {
  const Geometry g = call.tensor(0);
  add_view(call, g, inferred_sizes(g, call.tensor(1).sizes, call.decide));
}

void flatten(Operands& call) {
  const Geometry g = call.tensor(0);
  const size_t first = call.dimension(1, g.dim(), 0), last = call.dimension(2, g.dim(), -1);
  if (first > last) throw NoRule();
  if (first == last) return call.results.push_back(g);
  Extents sizes(g.sizes.begin(), g.sizes.begin() + static_cast<ptrdiff_t>(first));
  sizes.push_back(product(g.sizes, first, last + 1));
  sizes.insert(sizes.end(), g.sizes.begin() + static_cast<ptrdiff_t>(last) + 1, g.sizes.end());
  call.results.push_back(reshaped(g, sizes, call.decide));
}

void unflatten(Operands& call) {
  const Geometry g = call.tensor(0);
  const size_t dim = call.dimension(1, g.dim());
  Geometry one;
  one.sizes = {g.sizes[dim]};
  const Extents inner = inferred_sizes(one, call.integers(2), call.decide);
  Extents sizes = g.sizes;
  const auto at = sizes.erase(sizes.begin() + static_cast<ptrdiff_t>(dim));
  sizes.insert(at, inner.begin(), inner.end());
  add_view(call, g, sizes);
}

void transpose(Operands& call) {
  const Geometry g = call.tensor(0);
  std::vector<size_t> order(g.dim());
  for (size_t d = 0; d < order.size(); ++d) order[d] = d;
  std::swap(order[call.dimension(1, g.dim())], order[call.dimension(2, g.dim())]);
  call.results.push_back(permuted(g, order));
}

void permute(Operands& call) {
  const Geometry g = call.tensor(0);
  std::vector<size_t> order;
  for (int64_t d : call.fixed_integers(1)) order.push_back(Operands::wrapped(d, g.dim()));
  if (order.size() != g.dim()) throw NoRule();
  call.results.push_back(permuted(g, order));
}

void t(Operands& call) {
  const Geometry g = call.tensor(0);
  if (g.dim() > 2) throw NoRule();
  call.results.push_back(g.dim() == 2 ? permuted(g, {1, 0}) : g);
}

void unsqueeze(Operands& call) {
  const Geometry g = call.tensor(0);
  call.results.push_back(unsqueezed(g, call.dimension(1, g.dim() + 1)));
}

void squeeze(Operands& call) {
  Geometry g = call.tensor(0);
  std::vector<bool> asked(g.dim(), call.is_absent(1));
  if (!call.is_absent(1))
    for (int64_t d : call.fixed_integers(1)) asked[Operands::wrapped(d, g.dim())] = true;
  for (size_t d = asked.size(); d-- > 0;)
    if (asked[d] && call.decide.is_one(g.sizes[d])) g = without(g, d);
  call.results.push_back(g);
}

void expand(Operands& call) { call.results.push_back(expanded(call.tensor(0), call.integers(1), call.decide)); }

void expand_as(Operands& call) { call.results.push_back(expanded(call.tensor(0), call.tensor(1).sizes, call.decide)); }

// ---- indexing

namespace {

bool is_constant(const Argument& argument, PyObject* object) {
  return argument.kind == Argument::Constant && argument.object == object;
}

bool is_slice(const Argument& argument) {
  return argument.kind == Argument::Slice || (argument.kind == Argument::Constant && PySlice_Check(argument.object));
}

bool is_integral(const Argument& index) {
  const auto dtype = static_cast<c10::ScalarType>(index.record->dtype);
  return dtype == c10::ScalarType::Long || dtype == c10::ScalarType::Int;
}

/// Indexing: x[parts].
class Indexing {
 public:
  explicit Indexing(Operands& call) : call_(call), g_(call.tensor(0)) {}

  Geometry result(const Argument& index) {
    take(index);
    return rows_ ? gathered() : g_;
  }
  /// Applies an index; throws NoRule if the result is a copy (except for one index tensor).
  Geometry part(const Argument& index) {
    take(index);
    if (rows_) throw NoRule();
    return g_;
  }

 private:
  void take(const Argument& index) {
    if (index.kind != Argument::Tuple) return apply(index, 0);
    size_t indexed = 0;
    for (uint32_t i = 0; i < index.count; ++i)
      indexed += !is_constant(index.items[i], Py_None) && !is_constant(index.items[i], Py_Ellipsis);
    const size_t before = g_.dim();
    if (indexed > before) throw NoRule();
    for (uint32_t i = 0; i < index.count; ++i) apply(index.items[i], before - indexed);
  }

  void apply(const Argument& index, size_t skipped) {
    if (is_constant(index, Py_None)) {
      g_ = unsqueezed(g_, at_++);
    } else if (is_constant(index, Py_Ellipsis)) {
      at_ += skipped;
    } else if (at_ >= g_.dim()) {
      throw NoRule();
    } else if (is_slice(index)) {
      slice(index);
    } else if (index.kind == Argument::Tensor) {
      take_rows(index);
    } else {
      g_ = selected(g_, at_, call_.integer_of(&index), call_.decide);
    }
  }

  void slice(const Argument& index) {
    Expr parts[3];
    for (size_t i = 0; i < 3; ++i) parts[i] = bound(index, i);
    const Expr step = parts[2] ? parts[2] : number(1);
    if (!shape::is_constant(step) || step->constant < 1) throw NoRule();
    g_ = sliced(g_, at_, parts[0], parts[1], step->constant, call_.decide);
    ++at_;
  }

  /// Applies a single integer tensor.
  void take_rows(const Argument& index) {
    Geometry rows(*index.record);
    if (rows_ || !is_integral(index) || rows.dim() == 0) throw NoRule();
    rows_ = std::move(rows);
    rows_at_ = at_++;
  }

  Geometry gathered() {
    if (!is_standard(g_, call_.decide) || !is_standard(*rows_, call_.decide)) throw NoRule();
    Extents sizes = g_.sizes;
    const auto at = sizes.erase(sizes.begin() + static_cast<ptrdiff_t>(rows_at_));
    sizes.insert(at, rows_->sizes.begin(), rows_->sizes.end());
    return contiguous(std::move(sizes));
  }

  /// A slice's bound; null for None.
  Expr bound(const Argument& index, size_t i) const {
    if (index.kind == Argument::Slice)
      return is_constant(index.items[i], Py_None) ? nullptr : call_.integer_of(&index.items[i]);
    const auto* slice = reinterpret_cast<PySliceObject*>(index.object);
    PyObject* const parts[] = {slice->start, slice->stop, slice->step};
    return parts[i] == Py_None ? nullptr : Operands::integer_of(parts[i]);
  }

  Operands& call_;
  Geometry g_;
  size_t at_ = 0;                 // next dimension to index
  std::optional<Geometry> rows_;  // geometry of the index tensor
  size_t rows_at_ = 0;            // the dimension that it indexes
};

}  // namespace

void getitem(Operands& call) {
  if (!call.at(1)) throw NoRule();
  call.results.push_back(Indexing(call).result(*call.at(1)));
}

void setitem(Operands& call) {
  if (!call.at(1) || !call.at(2)) throw NoRule();
  const Geometry part = Indexing(call).part(*call.at(1));
  call.decide.require_elements(part.sizes);
  if (!call.is_tensor(2)) {
    if (call.at(2)->kind != Argument::Constant) throw NoRule();
    return;
  }
  const Extents sizes = broadcast(part.sizes, call.tensor(2).sizes, call.decide);
  if (sizes.size() != part.dim()) throw NoRule();
  for (size_t d = 0; d < sizes.size(); ++d) call.decide.require_equal(sizes[d], part.sizes[d]);
}

void select(Operands& call) {
  const Geometry g = call.tensor(0);
  call.results.push_back(selected(g, call.dimension(1, g.dim()), call.integer(2), call.decide));
}

void narrow(Operands& call) {
  const Geometry g = call.tensor(0);
  const size_t dim = call.dimension(1, g.dim());
  Expr start = call.integer(2);
  if (call.decide.less(start, number(0))) start = plus(start, g.sizes[dim]);
  const Expr stop = plus(start, call.integer(3));
  call.decide.require(at_least(start, number(0)));
  call.decide.require(at_least(stop, start));
  call.decide.require(at_most(stop, g.sizes[dim]));
  call.results.push_back(sliced(g, dim, start, stop, 1, call.decide));
}

namespace {

/// Pieces of equal size, except perhaps the last; their number is fixed.
void add_pieces(Operands& call, const Geometry& g, size_t dim, Expr size) {
  call.decide.require(at_least(size, number(1)));
  const Expr length = g.sizes[dim];
  const auto count = static_cast<int64_t>(call.expected());
  if (count < 1) throw NoRule();
  call.decide.require(shape::less(times(size, number(count - 1)), length));
  call.decide.require(at_most(length, times(size, number(count))));
  for (int64_t i = 0; i < count; ++i) {
    Geometry piece = g;
    const Expr start = times(size, number(i));
    piece.sizes[dim] = i + 1 < count ? size : minus(length, start);
    piece.offset = plus(g.offset, times(start, g.strides[dim]));
    call.results.push_back(std::move(piece));
  }
}

}  // namespace

void split(Operands& call) {
  const Geometry g = call.tensor(0);
  const size_t dim = call.dimension(2, g.dim(), 0);
  if (!call.at(1)) throw NoRule();
  if (call.at(1)->kind == Argument::Number || call.at(1)->kind == Argument::Constant)
    if (!call.at(1)->object || !PyTuple_Check(call.at(1)->object)) return add_pieces(call, g, dim, call.integer(1));
  Expr start = number(0);
  for (Expr size : call.integers(1)) {
    call.decide.require(at_least(size, number(0)));
    Geometry piece = g;
    piece.sizes[dim] = size;
    piece.offset = plus(g.offset, times(start, g.strides[dim]));
    call.results.push_back(std::move(piece));
    start = plus(start, size);
  }
  call.decide.require_equal(start, g.sizes[dim]);
}

void chunk(Operands& call) {
  const Geometry g = call.tensor(0);
  const size_t dim = call.dimension(2, g.dim(), 0);
  const int64_t chunks = call.fixed(1);
  if (chunks < 1) throw NoRule();
  add_pieces(call, g, dim, known(floor_divide(plus(g.sizes[dim], number(chunks - 1)), number(chunks))));
}

void unbind(Operands& call) {
  const Geometry g = call.tensor(0);
  const size_t dim = call.dimension(1, g.dim(), 0);
  call.decide.require_equal(g.sizes[dim], number(static_cast<int64_t>(call.expected())));
  for (size_t i = 0; i < call.expected(); ++i)
    call.results.push_back(selected(g, dim, number(static_cast<int64_t>(i)), call.decide));
}

// ---- joining tensors

void cat(Operands& call) {
  const std::vector<Geometry> parts = call.tensors(0);
  if (parts.empty()) throw NoRule();
  call.results.push_back(joined(parts, call.dimension(1, parts[0].dim(), 0), call.decide));
}

void stack(Operands& call) {
  std::vector<Geometry> parts = call.tensors(0);
  if (parts.empty()) throw NoRule();
  const size_t inner = parts[0].dim(), dim = call.dimension(1, inner + 1, 0);
  for (Geometry& part : parts) {
    if (part.dim() != inner || !is_standard(part, call.decide)) throw NoRule();
    part = unsqueezed(part, dim);
  }
  call.results.push_back(joined(parts, dim, call.decide));
}

namespace {

void add_repeated(Operands& call, const Geometry& g, Extents sizes) {
  call.decide.require_elements(sizes);
  for (size_t d = 0; d < g.dim(); ++d) {
    Expr& size = sizes[sizes.size() - g.dim() + d];
    size = times(size, g.sizes[d]);
  }
  call.results.push_back(contiguous(std::move(sizes)));
}

}  // namespace

void repeat(Operands& call) {
  const Geometry g = call.tensor(0);
  const Extents repeats = call.integers(1);
  if (repeats.size() < g.dim()) throw NoRule();
  add_repeated(call, g, repeats);
}

void tile(Operands& call) {
  const Geometry g = call.tensor(0);
  Extents repeats = call.integers(1);
  if (repeats.size() < g.dim()) repeats.insert(repeats.begin(), g.dim() - repeats.size(), number(1));
  add_repeated(call, g, repeats);
}

/// repeat_interleave by a number; counts in a tensor would be data.
void repeat_interleave(Operands& call) {
  const Geometry g = call.tensor(0);
  if (!call.at(1) || call.is_tensor(1) || !call.is_absent(3)) throw NoRule();
  const Expr repeats = call.integer(1);
  call.decide.require(at_least(repeats, number(1)));
  const bool flat = call.is_absent(2);
  Extents sizes = flat ? Extents{product(g.sizes)} : g.sizes;
  Expr& size = sizes[flat ? 0 : call.dimension(2, g.dim())];
  size = times(size, repeats);
  call.results.push_back(contiguous(std::move(sizes)));
}

/// roll: a concatenation of two parts.
void roll(Operands& call) {
  const Geometry g = call.tensor(0);
  if (!call.at(1) || !is_standard(g, call.decide)) throw NoRule();
  each_leaf(*call.at(1), [&](const Argument& shift) { call.take_any(shift); });
  call.results.push_back(contiguous(g.sizes));
}

void pad(Operands& call) {
  const Geometry g = call.tensor(0);
  if (!is_standard(g, call.decide)) throw NoRule();
  const std::vector<int64_t> widths = call.fixed_integers(1);
  if (widths.size() % 2 || widths.size() / 2 > g.dim()) throw NoRule();
  Extents sizes = g.sizes;
  for (size_t i = 0; i < widths.size(); ++i) {
    if (widths[i] < 0) throw NoRule();
    Expr& size = sizes[g.dim() - 1 - i / 2];
    size = plus(size, number(widths[i]));
  }
  if (call.at(2) && !call.is_absent(2)) {
    PyObject* const mode = call.at(2)->object;
    if (!mode || !PyUnicode_Check(mode) || PyUnicode_CompareWithASCIIString(mode, "constant") != 0) throw NoRule();
  }
  call.results.push_back(contiguous(std::move(sizes)));
}

void diff(Operands& call) {
  Geometry g = call.tensor(0);
  const size_t dim = call.dimension(2, g.dim(), -1);
  if (call.fixed(1, 1) != 1) throw NoRule();
  std::vector<Geometry> parts;
  if (!call.is_absent(3)) parts.push_back(call.tensor(3));
  parts.push_back(g);
  if (!call.is_absent(4)) parts.push_back(call.tensor(4));
  if (parts.size() > 1) g = joined(parts, dim, call.decide);
  call.decide.require(at_least(g.sizes[dim], number(2)));
  const Geometry later = sliced(g, dim, number(1), nullptr, 1, call.decide);
  const Geometry earlier = sliced(g, dim, nullptr, minus(g.sizes[dim], number(1)), 1, call.decide);
  call.results.push_back(meta::pointwise({later, earlier}, false, call.decide));
}

}  // namespace gramme::meta::rules
