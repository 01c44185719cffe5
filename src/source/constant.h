// Constants: immutable values of exact builtin types, compared without running Python.
//
// Two constants are the same if their types are equal and their values are: ints, str and bytes by value, floats and
// complex by bits (0.0 is not -0.0, a NaN is itself), None, bools and Ellipsis by identity, tuples, frozensets, ranges
// and slices item by item.
#pragma once
#include <Python.h>

#include <string>

namespace gramme::source {

/// True for a constant all the way down.
bool is_constant(PyObject* object);
/// True if both are the same constant. False if one is no constant and they are not one object.
bool same_constant(PyObject* a, PyObject* b);
/// True if two sets hold the same constants.
bool same_elements(PyObject* a, PyObject* b);
/// An int or float of magnitude 2**30 at most; no NaN.
bool is_narrow(PyObject* object);
constexpr double kNarrow = 1 << 30;
/// Instances of the type, which nobody can change, are their `size` bytes behind the object's head: two with the same
/// are the same constant, though no builtin. Told once in the process, before the first guard (scalars of NumPy).
void add_leaf_type(PyTypeObject* type, size_t size);
bool is_leaf(PyObject* object);
/// Equal for the same constants; by address for any other object.
size_t constant_hash(PyObject* object);
/// Its repr; for other objects the name of the type. Runs no code of the user.
std::string describe(PyObject* object);

}  // namespace gramme::source
