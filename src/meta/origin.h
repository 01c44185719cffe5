// Whose code a call runs: PyTorch's own, or the program's, which may look at anything.
#pragma once
#include <string_view>

#include "meta/argument.h"

namespace gramme::meta {

/// The first part of the name of a module, by its namespace and __name__, or that of a class and __module__. Empty if
/// there is none.
std::string_view package_of(PyObject* names, PyObject* key);

/// True for one of torch.ops, or an overload of one.
bool is_operator(PyObject* object);

/// True if it is in C or of PyTorch's Python, and all that it holds, too. Of operators this says nothing.
bool is_of_pytorch(PyObject* callable);

/// True for one of gramme's functions that do with tensors what NumPy does with arrays, by operators alone.
bool is_of_numpy(PyObject* callable);
/// True for one of those that call NumPy itself (exact_numpy): what they do to data no operator shows.
bool calls_numpy(PyObject* callable);

/// True if it calls what is not: a function that the program put in graphs (torch.compiler.allow_in_graph), perhaps in
/// a wrapper of PyTorch's.
bool is_of_program(const Call& call);

}  // namespace gramme::meta
