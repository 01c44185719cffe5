// Real objects for instances that the capture made, for what needs one before replay makes them.
#pragma once
#include <functional>

#include "value/value.h"

namespace gramme::trace {

class Capture;

/// An instance of the object's class with its attributes; neither __new__ nor __init__ of the class runs. `real` gives
/// an attribute's real value. Null if `real` gives null for one, or if the object holds a value of a builtin class.
Owned<> made_instance(Capture& capture, value::Object* object,
                      const std::function<Owned<>(const value::Attribute&)>& real);

/// A tuple of the type (tuple, torch.Size, a named tuple) with the items of a plain one; no code of the type runs.
Owned<> made_tuple(PyTypeObject* type, Owned<> plain);

}  // namespace gramme::trace
