// Subscripts of classes and typing forms: list[int], Optional[T], Box[str]. Not for other rooms.
#pragma once
#include "protocol/protocol.h"

namespace gramme::protocol {

/// cls[key] where the metaclass has no __getitem__.
Value* class_item(Trace& trace, value::Class* cls, Value* key);
/// The subscript of an object of the typing module; null if `object` is none.
Value* typing_item(Trace& trace, Value* object, Value* key);
/// What a typing form made in the capture is made of; null for other objects and attributes.
Value* typing_attribute(Trace& trace, PyObject* form, PyObject* name);
/// What `int | str` and `list[int]` are made of; null for other objects and attributes.
Value* typing_attribute(Trace& trace, value::Object* object, PyObject* name);

}  // namespace gramme::protocol
