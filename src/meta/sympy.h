// Expressions of sympy, as PyTorch computes sizes with, in ours.
#pragma once
#include <Python.h>

#include <functional>

#include "shape/expression.h"

namespace gramme::meta {

/// Null if it cannot be expressed, or `symbol`, which is given the name of each symbol, gives null.
shape::Expr from_sympy(PyObject* expression, const std::function<shape::Expr(PyObject*)>& symbol);

}  // namespace gramme::meta
