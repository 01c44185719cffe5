// Expressions as Python objects for tests.
#pragma once
#include <nanobind/nanobind.h>

#include "shape/expression.h"

namespace gramme::api {

/// An expression or null; operations on null give null.
struct Expression {
  shape::Expr node;
};

/// The node of an Expression, a bool, a float or an int; null for anything else.
shape::Expr expression_of(nanobind::handle object);

}  // namespace gramme::api
