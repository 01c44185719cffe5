// Converts sympy expressions, which PyTorch uses for sizes, to gramme's expressions.
#pragma once
#include <Python.h>

#include <functional>

#include "shape/expression.h"

namespace gramme::meta {

/// Null if it cannot be expressed. `symbol` maps a symbol's name to an expression; if it returns null, so does this.
shape::Expr from_sympy(PyObject* expression, const std::function<shape::Expr(PyObject*)>& symbol);

}  // namespace gramme::meta
