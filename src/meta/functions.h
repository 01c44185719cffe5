// The Python function for each operation of expressions: for graphs, and for computing on a ShapeEnv's symbols.
#pragma once
#include <Python.h>

#include "shape/arithmetic.h"

namespace gramme::meta {

struct NumberFunction {
  PyObject* function = nullptr;  // borrowed; lives as long as the process
  PyTypeObject* type = nullptr;  // type of its result
};

NumberFunction function_for(shape::Operation operation);

}  // namespace gramme::meta
