// Expressions as tests write them.
#pragma once
#include <nanobind/nanobind.h>

#include "shape/expression.h"

namespace gramme::api {

/// Of null too, so that tests can go on with it.
struct Expression {
  shape::Expr node;
};

/// Of an Expression, a bool, a float or an int; null of anything else.
shape::Expr expression_of(nanobind::handle object);

}  // namespace gramme::api
