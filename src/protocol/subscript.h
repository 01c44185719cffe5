// Subscripts of classes and typing forms: list[int], Optional[T], Box[str]. For this room only.
#pragma once
#include "protocol/protocol.h"

namespace gramme::protocol {

/// cls[key] for a metaclass without __getitem__.
Value* class_item(Trace& trace, value::Class* cls, Value* key);
/// The subscript of an object of the typing module; null if `object` is none.
Value* typing_item(Trace& trace, Value* object, Value* key);
/// An attribute (__args__ …) of a typing form made in the capture; null for other objects and attributes.
Value* typing_attribute(Trace& trace, PyObject* form, PyObject* name);
/// An attribute of `int | str` or `list[int]`; null for other objects and attributes.
Value* typing_attribute(Trace& trace, value::Object* object, PyObject* name);

}  // namespace gramme::protocol
