// A Python predicate of the program, applied to a size.
#pragma once
#include <Python.h>

#include <vector>

#include "shape/assumptions.h"

namespace gramme::meta {

/// What must be asked of the size to know what the predicate gives for it: first the answer, if it depends on the size,
/// then what was decided on the way. Calls Python. What has no form as an expression is left out.
std::vector<shape::Expr> conditions_of(PyObject* predicate, shape::Expr size, shape::Assumptions& assumptions);

}  // namespace gramme::meta
