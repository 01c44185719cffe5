// Real objects for instances that the capture made, for what needs one before replay makes them.
#pragma once
#include <functional>

#include "value/value.h"

namespace gramme::trace {

/// An instance of the class with the attributes; neither __new__ nor __init__ of the class runs. `real` gives an
/// attribute's real value; null if it gives null for one. Not for instances that hold a value of a builtin class.
Owned<> made_instance(PyTypeObject* of, const value::Attributes& attributes,
                      const std::function<Owned<>(const value::Attribute&)>& real);

/// A tuple of the type (tuple, torch.Size, a named tuple) with the items of a plain one; no code of the type runs.
Owned<> made_tuple(PyTypeObject* type, Owned<> plain);

}  // namespace gramme::trace
