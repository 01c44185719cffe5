// Scalars of NumPy: Objects with nothing but the real one. NumPy itself computes with them in the capture, as it would
// in the program, so bits are NumPy's; beside a tensor they are the Python number that PyTorch takes them for.
#pragma once
#include <functional>

#include "protocol/protocol.h"

namespace gramme::protocol {

bool is_numpy_scalar(Value* seen);
/// numpy.ufunc.reduce and its like.
bool is_method_of_ufunc(PyObject* descriptor);

/// Calls a function that is pure but for NumPy's warnings: where one would be given, the segment ends, since the
/// program gives it at each call. `apply` answers a new reference or null with an exception.
Value* computed_by_numpy(Trace& trace, const std::function<PyObject*()>& apply);

/// What an operator or comparison gives of which an operand, both seen, is a scalar of NumPy. Null if the other one is
/// an array or a tensor: then the scalar was replaced by a number. Ends the segment for other operands than numbers.
using NumpyOperator = PyObject* (*)(int op, PyObject* left, PyObject* right);
Value* numpy_operator(Trace& trace, NumpyOperator apply, int op, Value*& left, Value*& right);

/// What a call of NumPy's function, method, descriptor or class becomes, given by the builtins room; null if it has
/// nothing to do with arrays.
using ArrayCall = Value* (*)(Trace& trace, PyObject* callable, const Args& args);
void set_array_call(ArrayCall call);
/// The same of any callable.
Value* array_call(Trace& trace, PyObject* callable, const Args& args);

}  // namespace gramme::protocol
