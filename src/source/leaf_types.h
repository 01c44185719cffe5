// Leaf types: immutable types that are no builtins, whose instances are constants (constant.h) all the same. Comparing
// two instances runs no Python code.
#pragma once
#include <Python.h>

#include <vector>

namespace gramme::source {

/// Declares a type in C: two instances are the same constant if the `size` bytes after the object's head are. Called
/// once in the process for a type, before the first guard.
void add_leaf_type(PyTypeObject* type, size_t size);
/// Declares a class that a module derives directly from a type in C, and that has its name, once the module is loaded:
/// two instances are the same constant if all of the type's getters give the same constants.
void add_leaf_class(PyTypeObject* base, const char* module, std::vector<PyObject*> getters);

bool is_leaf_type(PyTypeObject* type);
inline bool is_leaf(PyObject* object) { return is_leaf_type(Py_TYPE(object)); }
/// True for instances that are compared by their bytes: numbers.
bool is_scalar(PyObject* object);

/// Of leaves of one type.
bool same_leaf(PyObject* a, PyObject* b);
size_t leaf_hash(PyObject* leaf);

}  // namespace gramme::source
