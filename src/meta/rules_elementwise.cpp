// Rules for elementwise operators and factories.
#include <cstdlib>

#include "meta/rule_list.h"

namespace gramme::meta::rules {

void pointwise(Operands& call) {
  bool mixed = false;
  const std::vector<Geometry> operands = call.all_tensors(mixed);
  call.results.push_back(meta::pointwise(operands, mixed, call.decide));
}

void where(Operands& call) {
  if (!call.at(2)) throw NoRule();
  pointwise(call);
}

void in_place(Operands& call) {
  bool mixed = false;
  const Geometry self = call.tensor(0);
  for (const Geometry& other : call.all_tensors(mixed)) {
    const Extents sizes = broadcast(self.sizes, other.sizes, call.decide);
    if (sizes.size() != self.dim()) throw NoRule();
    for (size_t d = 0; d < sizes.size(); ++d) call.decide.require_equal(sizes[d], self.sizes[d]);
  }
  call.results.push_back(self);
}

void unary(Operands& call) { call.results.push_back(meta::pointwise({call.tensor(0)}, false, call.decide)); }

void copied(Operands& call) { call.results.push_back(like(call.tensor(0), call.decide)); }

/// dropout: a product with a mask made like the input.
void dropout(Operands& call) {
  const Geometry self = call.tensor(0);
  call.results.push_back(meta::pointwise({self, like(self, call.decide)}, false, call.decide));
}

namespace {

/// True for a plain number, which determines no size.
bool is_plain_number(const Argument* argument) {
  return argument && !argument->expr && (argument->kind == Argument::Constant || argument->kind == Argument::Number);
}

}  // namespace

void full_like(Operands& call) {
  if (!is_plain_number(call.at(1))) throw NoRule();
  copied(call);
}

void made_contiguous(Operands& call) {
  const Geometry self = call.tensor(0);
  if (is_standard(self, call.decide)) return call.results.push_back(self);
  if (const Expr otherwise = is_not_contiguous(self); otherwise && call.decide.value(otherwise)) {
    call.decide.require(otherwise);
    return call.results.push_back(contiguous(self.sizes));
  }
  call.results.push_back(is_contiguous(self, call.decide) ? self : contiguous(self.sizes));
}

void same(Operands& call) { call.results.push_back(call.tensor(0)); }

namespace {

void add_sized(Operands& call, size_t place) {
  Extents sizes = call.integers(place);
  call.decide.require_elements(sizes);
  call.results.push_back(contiguous(std::move(sizes)));
}

void add_filled(Operands& call, size_t place) {
  if (!is_plain_number(call.at(place + 1))) throw NoRule();
  add_sized(call, place);
}

}  // namespace

void sized(Operands& call) { add_sized(call, 0); }
void new_sized(Operands& call) { add_sized(call, 1); }
void filled(Operands& call) { add_filled(call, 0); }
void new_filled(Operands& call) { add_filled(call, 1); }

namespace {

bool is_float(const Argument* argument) {
  if (!argument) return false;
  if (argument->kind == Argument::Number) return argument->expr && argument->expr->type == shape::Type::Float;
  return argument->kind == Argument::Constant && PyFloat_CheckExact(argument->object);
}

Expr float_of(const Operands& call, size_t place, double otherwise) {
  const Argument* argument = call.at(place);
  if (call.is_absent(place)) return known(shape::float_constant(otherwise));
  if (!is_float(argument)) return known(shape::to_float(call.integer(place)));
  if (argument->kind == Argument::Constant) return known(shape::float_constant(PyFloat_AS_DOUBLE(argument->object)));
  call.take_any(*argument);
  return argument->expr;
}

/// arange of floats, computed in doubles for all dtypes.
void arange_of_floats(Operands& call) {
  if (!call.is_absent(3)) throw NoRule();
  const bool has_start = !call.is_absent(1);
  const Expr start = has_start ? float_of(call, 0, 0) : known(shape::float_constant(0));
  const Expr stop = float_of(call, has_start ? 1 : 0, 0), step = float_of(call, 2, 1);
  const Expr span = known(shape::subtract(stop, start));
  const Expr count = known(shape::ceil(known(shape::true_divide(span, step))));
  call.decide.require(at_least(count, number(1)));
  call.results.push_back(contiguous({count}));
}

}  // namespace

void arange(Operands& call) {
  if (is_float(call.at(0)) || is_float(call.at(1)) || is_float(call.at(2))) return arange_of_floats(call);
  const bool has_start = !call.is_absent(1);
  const Expr start = has_start ? call.integer(0) : number(0);
  const Expr stop = call.integer(has_start ? 1 : 0);
  const int64_t step = call.fixed(2, 1);
  if (step == 0) throw NoRule();
  const Expr low = step > 0 ? start : stop, high = step > 0 ? stop : start;
  call.decide.require(shape::less(low, high));
  const Expr span = plus(minus(high, low), number(std::abs(step) - 1));
  call.results.push_back(contiguous({known(floor_divide(span, number(std::abs(step))))}));
}

void fill_diagonal(Operands& call) {
  const Geometry self = call.tensor(0);
  if (call.at(1) && call.at(1)->kind != Argument::Constant) throw NoRule();
  if (self.dim() < 2) throw NoRule();
  for (size_t d = 1; d < self.dim() && self.dim() > 2; ++d) call.decide.require_equal(self.sizes[0], self.sizes[d]);
  call.results.push_back(self);
}

/// linspace and the like: `count` values between two numbers.
void spaced(Operands& call) {
  for (size_t end : {0, 1})
    if (call.at(end) && call.at(end)->kind == Argument::Number) call.take_any(*call.at(end));
  if (call.is_tensor(0) || call.is_tensor(1)) throw NoRule();
  const Expr count = call.integer(2);
  call.decide.require(at_least(count, number(1)));
  call.results.push_back(contiguous({count}));
}

namespace {

/// The sizes of nested lists of numbers.
Extents extents_of(const Operands& call, const Argument& data) {
  if (data.kind == Argument::Number) call.take_any(data);
  if (data.kind == Argument::Number || (data.kind == Argument::Constant && PyNumber_Check(data.object))) return {};
  if ((data.kind != Argument::Tuple && data.kind != Argument::List) || data.count == 0) throw NoRule();
  Extents sizes = {number(data.count)};
  for (uint32_t i = 0; i < data.count; ++i) {
    const Extents inner = extents_of(call, data.items[i]);
    if (i == 0) sizes.insert(sizes.end(), inner.begin(), inner.end());
    if (sizes.size() != inner.size() + 1) throw NoRule();
  }
  return sizes;
}

/// tensor(data) of numbers; no rule if a dtype is given, which might not hold another number.
void add_of_numbers(Operands& call, size_t data, size_t dtype) {
  if (!call.at(data) || !call.is_absent(dtype)) throw NoRule();
  call.results.push_back(contiguous(extents_of(call, *call.at(data))));
}

}  // namespace

void of_numbers(Operands& call) { add_of_numbers(call, 0, 1); }
void new_of_numbers(Operands& call) { add_of_numbers(call, 1, 2); }

}  // namespace gramme::meta::rules
