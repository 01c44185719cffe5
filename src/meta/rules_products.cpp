// Rules for matrix products, attention, convolutions and pooling.
#include <c10/core/Device.h>

#include <algorithm>

#include "meta/rule_list.h"

namespace gramme::meta::rules {

void linear(Operands& call) {
  const Geometry input = call.tensor(0), weight = call.tensor(1);
  if (input.dim() < 1 || weight.dim() != 2) throw NoRule();
  call.decide.require_equal(input.sizes.back(), weight.sizes[1]);
  if (!call.is_absent(2)) {
    const Geometry bias = call.tensor(2);
    if (bias.dim() != 1) throw NoRule();
    call.decide.require_equal(bias.sizes[0], weight.sizes[0]);
  }
  Extents sizes = input.sizes;
  sizes.back() = weight.sizes[0];
  call.results.push_back(contiguous(std::move(sizes)));
}

namespace {

Extents product_sizes(const Geometry& a, const Geometry& b, Decisions& decide) {
  if (a.dim() == 0 || b.dim() == 0) throw NoRule();
  decide.require_equal(a.sizes.back(), b.sizes[b.dim() == 1 ? 0 : b.dim() - 2]);
  auto batch = [](const Geometry& g) { return g.dim() < 2 ? Extents() : Extents(g.sizes.begin(), g.sizes.end() - 2); };
  Extents sizes = broadcast(batch(a), batch(b), decide);
  if (a.dim() > 1) sizes.push_back(a.sizes[a.dim() - 2]);
  if (b.dim() > 1) sizes.push_back(b.sizes.back());
  return sizes;
}

}  // namespace

void matmul(Operands& call) {
  call.results.push_back(contiguous(product_sizes(call.tensor(0), call.tensor(1), call.decide)));
}

void added_product(Operands& call) {
  const Extents sizes = product_sizes(call.tensor(1), call.tensor(2), call.decide);
  const Extents added = broadcast(sizes, call.tensor(0).sizes, call.decide);
  if (added.size() != sizes.size()) throw NoRule();
  for (size_t d = 0; d < sizes.size(); ++d) call.decide.require_equal(sizes[d], added[d]);
  call.results.push_back(contiguous(sizes));
}

namespace {

/// Requires that attention's mask broadcasts to the scores.
void require_mask(Operands& call, const Extents& scores) {
  const Geometry mask = call.tensor(3);
  if (mask.dim() > scores.size()) throw NoRule();
  const size_t without = scores.size() - mask.dim();
  for (size_t d = 0; d < mask.dim(); ++d)
    if (!shape::is_constant(mask.sizes[d], 1)) call.decide.require_equal(mask.sizes[d], scores[without + d]);
}

/// True if dropout_p is not 0.
bool drops(const Operands& call) {
  if (call.is_absent(4)) return false;
  const Argument& share = *call.at(4);
  const bool known =
      share.kind == Argument::Constant && (PyFloat_CheckExact(share.object) || PyLong_CheckExact(share.object));
  if (!known) throw NoRule();
  return PyObject_IsTrue(share.object) == 1;
}

}  // namespace

namespace {

/// Attention by batched matrix products, for equal batches of query, key and value.
void attention_by_products(Operands& call) {
  const Geometry query = call.tensor(0), key = call.tensor(1), value = call.tensor(2);
  const size_t dim = query.dim();
  if (dim < 2 || key.dim() != dim || value.dim() != dim || !call.is_absent(3)) throw NoRule();
  for (const Geometry* other : {&key, &value})
    for (size_t d = 0; d + 2 < dim; ++d) call.decide.require_equal(query.sizes[d], other->sizes[d]);
  call.decide.require_equal(query.sizes[dim - 1], key.sizes[dim - 1]);
  call.decide.require_equal(key.sizes[dim - 2], value.sizes[dim - 2]);
  Extents sizes = query.sizes;
  sizes.back() = value.sizes.back();
  call.results.push_back(contiguous(std::move(sizes)));
}

}  // namespace

/// Attention. The CPU flash kernel returns the query's layout, others a new tensor's; it supports no dropout, and masks
/// of two or four dimensions.
void attention(Operands& call) {
  if (call.record(0).device_type != static_cast<int8_t>(c10::kCPU) || call.flag(7)) throw NoRule();
  if (call.tensor(0).dim() != 4) return attention_by_products(call);
  const Geometry query = call.tensor(0), key = call.tensor(1), value = call.tensor(2);
  const bool four = query.dim() == 4 && key.dim() == 4 && value.dim() == 4;
  if (!four) throw NoRule();
  for (const Geometry* other : {&key, &value})
    for (size_t d : {0, 1, 3}) call.decide.require_equal(query.sizes[d], other->sizes[d]);
  call.decide.require_equal(key.sizes[2], value.sizes[2]);
  for (const Geometry* g : {&query, &key, &value}) call.decide.require_equal(g->strides[3], number(1));
  if (!call.is_absent(3)) require_mask(call, {query.sizes[0], query.sizes[1], query.sizes[2], key.sizes[2]});
  const bool masked = !call.is_absent(3);
  const bool odd = masked && ((call.tensor(3).dim() != 2 && call.tensor(3).dim() != 4) || call.record(3).requires_grad);
  if (odd || drops(call)) return call.results.push_back(contiguous(query.sizes));
  const Geometry flash = like(query, call.decide), plain = contiguous(query.sizes);
  bool differ = is_standard(query, call.decide);  // then both kernels give the same strides
  for (size_t d = 0; d < 4; ++d) differ |= call.decide.value(flash.strides[d]) != call.decide.value(plain.strides[d]);
  if (!differ) throw NoRule();
  call.results.push_back(flash);
}

namespace {

/// A window parameter: one number for all dimensions, or one for each.
std::vector<int64_t> window(const Operands& call, size_t place, size_t dims, int64_t otherwise) {
  std::vector<int64_t> numbers = call.is_absent(place) ? std::vector<int64_t>{otherwise} : call.fixed_integers(place);
  if (numbers.size() == 1) numbers.resize(dims, numbers[0]);
  if (numbers.size() != dims) throw NoRule();
  return numbers;
}

struct Window {
  int64_t kernel, stride, padding, dilation;
};

/// The number of positions of a window; `past_the_end` is ceil_mode, which adds one that begins inside the input or its
/// left padding.
Expr places(Expr size, const Window& window, bool past_the_end, Decisions& decide) {
  if (window.stride < 1 || window.kernel < 1 || window.padding < 0 || window.dilation < 1) throw NoRule();
  const int64_t covered = window.dilation * (window.kernel - 1) + 1;
  const Expr room = plus(size, number(2 * window.padding - covered + (past_the_end ? window.stride - 1 : 0)));
  decide.require(at_least(room, number(0)));
  const Expr stride = number(window.stride), last = known(floor_divide(room, stride));
  if (!past_the_end) return plus(last, number(1));
  return decide.less(times(last, stride), plus(size, number(window.padding))) ? plus(last, number(1)) : last;
}

Geometry standard(const Operands& call, size_t place, size_t dim) {
  const Geometry g = call.tensor(place);
  if (g.dim() != dim || !is_standard(g, call.decide)) throw NoRule();
  return g;
}

std::vector<Window> windows(const std::vector<int64_t>& kernel, const std::vector<int64_t>& stride,
                            const std::vector<int64_t>& padding, const std::vector<int64_t>& dilation) {
  std::vector<Window> made;
  for (size_t d = 0; d < kernel.size(); ++d) made.push_back({kernel[d], stride[d], padding[d], dilation[d]});
  return made;
}

Geometry with_places(const Geometry& g, const std::vector<Window>& windows, bool past_the_end, Decisions& decide) {
  Extents sizes = g.sizes;
  const size_t first = sizes.size() - windows.size();
  for (size_t d = 0; d < windows.size(); ++d)
    sizes[first + d] = places(sizes[first + d], windows[d], past_the_end, decide);
  return contiguous(std::move(sizes));
}

}  // namespace

void conv(Operands& call) {
  const size_t dim = call.tensor(1).dim();
  if (dim < 3) throw NoRule();
  const Geometry input = standard(call, 0, dim), weight = standard(call, 1, dim);
  std::vector<int64_t> kernel;
  for (size_t d = 2; d < dim; ++d) {
    if (!shape::is_constant(weight.sizes[d])) throw NoRule();
    kernel.push_back(weight.sizes[d]->constant);
  }
  const size_t spatial = dim - 2;
  const int64_t groups = call.fixed(6, 1);
  call.decide.require_equal(input.sizes[1], times(weight.sizes[1], number(groups)));
  call.decide.require_equal(known(modulo(weight.sizes[0], number(groups))), number(0));
  if (!call.is_absent(2)) {
    const Geometry bias = call.tensor(2);
    if (bias.dim() != 1) throw NoRule();
    call.decide.require_equal(bias.sizes[0], weight.sizes[0]);
  }
  Geometry made = with_places(
      input, windows(kernel, window(call, 3, spatial, 1), window(call, 4, spatial, 0), window(call, 5, spatial, 1)),
      false, call.decide);
  made.sizes[1] = weight.sizes[0];
  call.results.push_back(contiguous(made.sizes));
}

namespace {

/// The input of a pooling with `spatial` dimensions, batched or not.
Geometry pooled_input(const Operands& call, size_t spatial) {
  const size_t dim = call.tensor(0).dim();
  if (dim != spatial + 1 && dim != spatial + 2) throw NoRule();
  return standard(call, 0, dim);
}

void pool(Operands& call, size_t spatial, size_t dilation_place, size_t ceil_place) {
  const Geometry input = pooled_input(call, spatial);
  const std::vector<int64_t> kernel = window(call, 1, spatial, 1);
  const std::vector<int64_t> stride = call.is_absent(2) ? kernel : window(call, 2, spatial, 1);
  const std::vector<int64_t> dilation =
      dilation_place ? window(call, dilation_place, spatial, 1) : std::vector<int64_t>(spatial, 1);
  const std::vector<Window> all = windows(kernel, stride, window(call, 3, spatial, 0), dilation);
  const bool fits = spatial == 3 && !dilation_place;  // avg_pool3d refuses inputs smaller than the window
  for (size_t d = 0; d < spatial && fits; ++d)
    call.decide.require(at_least(input.sizes[input.dim() - 3 + d], number(kernel[d])));
  call.results.push_back(with_places(input, all, call.flag(ceil_place), call.decide));
}

void max_pool(Operands& call, size_t spatial) {
  if (call.flag(6)) throw NoRule();
  pool(call, spatial, 4, 5);
}

void adaptive_pool(Operands& call, size_t spatial) {
  Extents sizes = pooled_input(call, spatial).sizes;
  Extents asked = call.integers(1);
  if (asked.size() == 1) asked.resize(spatial, asked[0]);
  if (asked.size() != spatial) throw NoRule();
  std::copy(asked.begin(), asked.end(), sizes.end() - static_cast<ptrdiff_t>(spatial));
  call.decide.require_elements(sizes);
  call.results.push_back(contiguous(std::move(sizes)));
}

}  // namespace

void max_pool1d(Operands& call) { max_pool(call, 1); }
void max_pool2d(Operands& call) { max_pool(call, 2); }
void max_pool3d(Operands& call) { max_pool(call, 3); }
void avg_pool1d(Operands& call) { pool(call, 1, 0, 4); }
void avg_pool2d(Operands& call) { pool(call, 2, 0, 4); }
void avg_pool3d(Operands& call) { pool(call, 3, 0, 4); }
void adaptive_pool1d(Operands& call) { adaptive_pool(call, 1); }
void adaptive_pool2d(Operands& call) { adaptive_pool(call, 2); }
void adaptive_pool3d(Operands& call) { adaptive_pool(call, 3); }

}  // namespace gramme::meta::rules
