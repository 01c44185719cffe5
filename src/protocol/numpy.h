// NumPy scalars: Objects that consist of the real scalar only. In the capture NumPy itself computes with them, so bits
// are NumPy's. Beside a tensor they count as the Python number that PyTorch converts them to.
#pragma once
#include <functional>

#include "protocol/protocol.h"

namespace gramme::protocol {

bool is_numpy_scalar(Value* seen);
/// True for method descriptors of ufuncs such as numpy.ufunc.reduce.
bool is_method_of_ufunc(PyObject* descriptor);

/// Calls a function that is pure except for NumPy's warnings. Ends the segment if it would warn, since the program
/// warns at each call. `apply` returns a new reference, or null with an exception.
Value* computed_by_numpy(Trace& trace, const std::function<PyObject*()>& apply);

/// The result of an operator or comparison with a NumPy scalar; both operands are seen. Null if the other one is an
/// array or tensor, after replacing the scalar by a Python number. Ends the segment for operands that are no numbers.
using NumpyOperator = PyObject* (*)(int op, PyObject* left, PyObject* right);
Value* numpy_operator(Trace& trace, NumpyOperator apply, int op, Value*& left, Value*& right);

/// Models a call of a NumPy function, method, descriptor or class that involves arrays; null for others. Set by the
/// builtins room.
using ArrayCall = Value* (*)(Trace& trace, PyObject* callable, const Args& args);
void set_array_call(ArrayCall call);
/// The same for any callable.
Value* array_call(Trace& trace, PyObject* callable, const Args& args);

}  // namespace gramme::protocol
