// Constants: immutable values of exact builtin types, compared without running Python.
//
// Two constants are the same if their types are equal and their values are: ints, str and bytes by value, floats and
// complex by bits (0.0 is not -0.0, a NaN is itself), None, bools and Ellipsis by identity, tuples, frozensets, ranges
// and slices item by item; instances of a leaf type as it says (leaf_types.h).
#pragma once
#include <Python.h>

#include <string>

namespace gramme::source {

/// True if the object and everything in it is a constant.
bool is_constant(PyObject* object);
/// True if both are the same constant or the same object.
bool same_constant(PyObject* a, PyObject* b);
/// True if two sets hold the same constants.
bool same_elements(PyObject* a, PyObject* b);
/// True for an int or float of magnitude at most 2**30; false for NaN.
bool is_narrow(PyObject* object);
constexpr double kNarrow = 1 << 30;
/// Equal for the same constants; by address for any other object.
size_t constant_hash(PyObject* object);
/// A constant's repr; a name for types, functions and code; "a <type>" for other objects. Runs no user code.
std::string describe(PyObject* object);

}  // namespace gramme::source
