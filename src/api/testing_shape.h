// Expressions as tests write them.
#pragma once
#include <nanobind/nanobind.h>

#include "shape/expression.h"

namespace gramme::api {

/// Wraps null too, so that tests can go on with it.
struct Expression {
  shape::Expr node;
};

/// The node of an Expression, a bool, a float or an int; null for anything else.
shape::Expr expression_of(nanobind::handle object);

}  // namespace gramme::api
