// Rules for reductions, norms, and operators on indices.
#include "meta/rule_list.h"

namespace gramme::meta::rules {

namespace {

std::vector<bool> reduced_dims(const Operands& call, size_t dim) {
  std::vector<bool> reduced(dim, call.is_absent(1));
  if (call.is_absent(1)) return reduced;
  const std::vector<int64_t> dims = call.fixed_integers(1);
  if (dims.empty()) throw NoRule();
  for (int64_t d : dims) reduced[Operands::wrapped(d, dim)] = true;
  return reduced;
}

Geometry reduced(const Geometry& g, const std::vector<bool>& dims, bool keeps) {
  Extents sizes;
  for (size_t d = 0; d < g.dim(); ++d) {
    if (!dims[d])
      sizes.push_back(g.sizes[d]);
    else if (keeps)
      sizes.push_back(number(1));
  }
  return contiguous(std::move(sizes));
}

}  // namespace

void reduction(Operands& call) {
  const Geometry g = call.tensor(0);
  call.results.push_back(reduced(g, reduced_dims(call, g.dim()), call.flag(2)));
}

void extremum(Operands& call) {
  if (call.is_tensor(1)) return pointwise(call);
  for (size_t i = 0; i < call.expected(); ++i) reduction(call);
}

/// var and std; requires more than one element, since PyTorch warns otherwise.
void variance(Operands& call) {
  const Geometry g = call.tensor(0);
  const std::vector<bool> dims = reduced_dims(call, g.dim());
  Expr elements = number(1);
  for (size_t d = 0; d < g.dim(); ++d)
    if (dims[d]) elements = times(elements, g.sizes[d]);
  call.decide.require(at_least(elements, number(2)));
  call.results.push_back(reduced(g, dims, call.flag(2)));
}

void standard(Operands& call) {
  const Geometry g = call.tensor(0);
  if (!is_standard(g, call.decide)) throw NoRule();
  call.results.push_back(contiguous(g.sizes));
}

namespace {

void require_sizes(Operands& call, size_t place, const Extents& sizes) {
  if (call.is_absent(place)) return;
  const Geometry g = call.tensor(place);
  if (g.dim() != sizes.size()) throw NoRule();
  for (size_t d = 0; d < sizes.size(); ++d) call.decide.require_equal(g.sizes[d], sizes[d]);
}

/// Normalisation over the last dimensions; parameters `first_parameter` to `last_parameter` must have their sizes.
void norm(Operands& call, size_t first_parameter, size_t last_parameter) {
  const Geometry g = call.tensor(0);
  const Extents shape = call.integers(1);
  if (shape.empty() || shape.size() > g.dim()) throw NoRule();
  for (size_t d = 0; d < shape.size(); ++d) call.decide.require_equal(shape[d], g.sizes[g.dim() - shape.size() + d]);
  for (size_t place = first_parameter; place <= last_parameter; ++place) require_sizes(call, place, shape);
  standard(call);
}

}  // namespace

void layer_norm(Operands& call) { norm(call, 2, 3); }
void rms_norm(Operands& call) { norm(call, 2, 2); }

void batch_norm(Operands& call) {
  const Geometry g = call.tensor(0);
  if (g.dim() < 2) throw NoRule();
  Expr others = g.sizes[0];
  for (size_t d = 2; d < g.dim(); ++d) others = times(others, g.sizes[d]);
  if (call.flag(5)) call.decide.require(not_equal(others, number(1)));
  for (size_t place = 1; place <= 4; ++place) require_sizes(call, place, {g.sizes[1]});
  standard(call);
}

void group_norm(Operands& call) {
  const Geometry g = call.tensor(0);
  if (g.dim() < 2) throw NoRule();
  const Expr groups = number(call.fixed(1));
  call.decide.require(at_least(groups, number(1)));
  call.decide.require_equal(known(modulo(g.sizes[1], groups)), number(0));
  const Expr in_group = times(times(g.sizes[0], known(floor_divide(g.sizes[1], groups))), product(g.sizes, 2));
  call.decide.require(not_equal(in_group, number(1)));
  for (size_t place = 2; place <= 3; ++place) require_sizes(call, place, {g.sizes[1]});
  standard(call);
}

void embedding(Operands& call) {
  const Geometry weight = call.tensor(1);
  if (weight.dim() != 2 || !call.is_absent(3)) throw NoRule();
  if (!call.is_absent(2) && !shape::is_constant(weight.sizes[0])) throw NoRule();
  Extents sizes = call.tensor(0).sizes;
  sizes.push_back(weight.sizes[1]);
  call.results.push_back(contiguous(std::move(sizes)));
}

void one_hot(Operands& call) {
  Extents sizes = call.tensor(0).sizes;
  const Expr classes = call.integer(1);
  call.decide.require(at_least(classes, number(1)));
  sizes.push_back(classes);
  call.results.push_back(contiguous(std::move(sizes)));
}

void gather(Operands& call) {
  const Geometry g = call.tensor(0), index = call.tensor(2);
  const size_t dim = call.dimension(1, g.dim());
  if (index.dim() != g.dim()) throw NoRule();
  for (size_t d = 0; d < g.dim(); ++d)
    if (d != dim) call.decide.require(at_most(index.sizes[d], g.sizes[d]));
  call.results.push_back(contiguous(index.sizes));
}

void index_select(Operands& call) {
  const Geometry g = call.tensor(0), index = call.tensor(2);
  const size_t dim = call.dimension(1, g.dim());
  if (index.dim() != 1 || !is_standard(g, call.decide)) throw NoRule();
  Extents sizes = g.sizes;
  sizes[dim] = index.sizes[0];
  call.results.push_back(contiguous(std::move(sizes)));
}

void masked_fill(Operands& call) {
  const Geometry g = call.tensor(0);
  if (!is_standard(g, call.decide)) throw NoRule();
  call.results.push_back(contiguous(broadcast(g.sizes, call.tensor(1).sizes, call.decide)));
}

}  // namespace gramme::meta::rules
