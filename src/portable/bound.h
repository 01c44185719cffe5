// C functions bound to an object: made anew at each look, so known by what they are bound to and what they are called.
#pragma once
#include <string>
#include <utility>

#include "base/ref.h"

namespace gramme::portable {

/// What the object is bound to, and its name; null if it is none.
std::pair<Owned<>, std::string> bound_parts(PyObject* function);
/// The one of that name, by the descriptor in C of the object's class, or of the object if it is a class; null if there
/// is none. Runs no Python.
Owned<> bind_again(PyObject* self, const std::string& name);
/// True if both C functions are the same method of the same object.
bool is_same_bound(PyObject* a, PyObject* b);

}  // namespace gramme::portable
