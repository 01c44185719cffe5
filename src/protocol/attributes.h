// Attribute access by kind of value; attributes.cpp dispatches. Getters return null if there is no such attribute.
#pragma once
#include "base/text.h"
#include "cpython/objects.h"
#include "protocol/protocol.h"

namespace gramme::protocol {

inline bool has_instance_dict(PyTypeObject* type) {
  return type->tp_dictoffset != 0 || cpython::has_managed_dict(type);
}
inline std::string text_of(PyObject* name) { return utf8_of(name); }
inline Value* or_none(Trace& trace, Value* value) { return value ? value : trace.none(); }

/// Sets an attribute; a null value deletes it.
void write_attribute(Trace& trace, Value* object, PyObject* name, Value* value);

// ---- descriptors.cpp
bool is_data_descriptor(Trace& trace, PyObject* found);
/// True if a data descriptor on the class took the write; a null value deletes.
bool descriptor_took(Trace& trace, Value* object, PyTypeObject* type, PyObject* found, PyObject* name, Value* value);

// ---- attributes_objects.cpp
Value* object_attribute(Trace& trace, value::Object* object, PyObject* name);
void set_on_object(Trace& trace, value::Object* object, PyObject* name, Value* value);
/// `owner.__dict__`: one value for each owner, kept in `known`.
Value* instance_dict(Trace& trace, Value* owner, Value*& known);
/// Binds a C descriptor (member, getset, method) found on the class of an Object.
Value* c_descriptor(Trace& trace, value::Object* object, PyObject* found, PyObject* name);

// ---- attributes_classes.cpp
Value* class_attribute(Trace& trace, value::Class* cls, PyObject* name);
void store_in_class(Trace& trace, value::Class* cls, PyObject* name, Value* value);
Value* super_attribute(Trace& trace, value::Super* super, PyObject* name);

// ---- attributes_functions.cpp
Value* function_attribute(Trace& trace, value::Function* function, PyObject* name);
void store_in_function(Trace& trace, value::Function* function, PyObject* name, Value* value);
Value* method_attribute(Trace& trace, value::Method* method, PyObject* name);
Value* partial_attribute(Trace& trace, value::Partial* partial, PyObject* name);
/// The present keywords. Those of an existing partial are in a dict that the program can change.
const value::Attributes& partial_keywords(Trace& trace, value::Partial* partial);
/// Stores into the instance dict of a value of a C type (a partial, an OrderedDict); null deletes.
void store_held_attribute(Trace& trace, Value* holder, PyObject* name, Value* value);

// ---- classes.cpp
/// A real object of the same type that stands for a namespace's value in a real class. Runs no user code.
Owned<> stand_in(Trace& trace, Value* seen);

// ---- attributes_builtins.cpp
/// A tuple's field by its descriptor (namedtuples) or by name (structure sequences); null if it is none.
Value* tuple_field(value::Tuple* tuple, PyObject* found, PyObject* name);
Value* builtin_attribute(Trace& trace, Value* value, PyObject* name);

}  // namespace gramme::protocol
