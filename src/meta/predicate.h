// Evaluates a Python predicate of the program on a symbolic size.
#pragma once
#include <Python.h>

#include <vector>

#include "shape/assumptions.h"

namespace gramme::meta {

/// The conditions on the size that determine the predicate's result: first the result, if it depends on the size, then
/// the decisions on the way. Calls Python. Empty if something has no form as an expression.
std::vector<shape::Expr> conditions_of(PyObject* predicate, shape::Expr size, shape::Assumptions& assumptions);

}  // namespace gramme::meta
