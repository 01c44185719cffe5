// C functions bound to an object. Each attribute access makes a new one, so they are identified by object and name.
#pragma once
#include <string>
#include <utility>

#include "base/ref.h"

namespace gramme::portable {

/// The object that the function is bound to, and its name; null if it is no bound C function.
std::pair<Owned<>, std::string> bound_parts(PyObject* function);
/// The C function of that name bound to the object: from the C descriptor of its class, or of the object if it is a
/// class. Null if there is none. Runs no Python.
Owned<> bind_again(PyObject* self, const std::string& name);
/// True if both C functions are the same method of the same object.
bool is_same_bound(PyObject* a, PyObject* b);

}  // namespace gramme::portable
