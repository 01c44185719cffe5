// Decides whether a call runs only PyTorch's code, or the program's, which may look at anything.
#pragma once
#include <string>
#include <string_view>

#include "meta/argument.h"

namespace gramme::meta {

/// The top-level package named in a namespace under `key`: __name__ for a module, __module__ for a class. Empty if
/// there is none.
std::string_view package_of(PyObject* names, PyObject* key);

/// The name of the call's method or function; empty if the function has none.
std::string name_of(const Call& call);

/// True for an operator of torch.ops or one of its overloads.
bool is_operator(PyObject* object);

/// True if the callable and everything it holds is C code or PyTorch's Python. Says nothing about operators.
bool is_of_pytorch(PyObject* callable);

/// True for gramme's functions that do on tensors, by operators, what NumPy does on arrays.
bool is_of_numpy(PyObject* callable);
/// True for those that call NumPy itself (exact_numpy), whose effect on data no operator shows.
bool calls_numpy(PyObject* callable);

/// True if the call runs the program's code: a function registered by torch.compiler.allow_in_graph, perhaps in a
/// wrapper of PyTorch's.
bool is_of_program(const Call& call);

}  // namespace gramme::meta
