// Rules of what goes element by element, and of new tensors.
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

/// Times what is made like it.
void dropout(Operands& call) {
  const Geometry self = call.tensor(0);
  call.results.push_back(meta::pointwise({self, like(self, call.decide)}, false, call.decide));
}

void full_like(Operands& call) {
  if (call.at(1) && call.at(1)->kind != Argument::Constant) throw NoRule();
  copied(call);
}

void made_contiguous(Operands& call) {
  const Geometry self = call.tensor(0);
  const bool is = is_standard(self, call.decide) || is_contiguous(self, call.decide);
  call.results.push_back(is ? self : contiguous(self.sizes));
}

void same(Operands& call) { call.results.push_back(call.tensor(0)); }

namespace {

void add_sized(Operands& call, size_t place) {
  Extents sizes = call.integers(place);
  call.decide.require_elements(sizes);
  call.results.push_back(contiguous(std::move(sizes)));
}

void add_filled(Operands& call, size_t place) {
  if (!call.at(place + 1) || call.at(place + 1)->kind != Argument::Constant) throw NoRule();
  add_sized(call, place);
}

}  // namespace

void sized(Operands& call) { add_sized(call, 0); }
void new_sized(Operands& call) { add_sized(call, 1); }
void filled(Operands& call) { add_filled(call, 0); }
void new_filled(Operands& call) { add_filled(call, 1); }

void arange(Operands& call) {
  const bool has_start = !call.is_absent(1);
  const Expr start = has_start ? call.integer(0) : number(0);
  const Expr stop = call.integer(has_start ? 1 : 0);
  const int64_t step = call.fixed(2, 1);
  if (step <= 0) throw NoRule();
  call.decide.require(shape::less(start, stop));
  const Expr span = plus(minus(stop, start), number(step - 1));
  call.results.push_back(contiguous({known(floor_divide(span, number(step)))}));
}

}  // namespace gramme::meta::rules
