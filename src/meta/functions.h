// What computes the operations of expressions in Python: in graphs, and where symbols of a ShapeEnv stand for ours.
#pragma once
#include <Python.h>

#include "shape/arithmetic.h"

namespace gramme::meta {

struct NumberFunction {
  PyObject* function = nullptr;  // borrowed, for good
  PyTypeObject* type = nullptr;  // of what it gives
};

NumberFunction function_for(shape::Operation operation);

}  // namespace gramme::meta
