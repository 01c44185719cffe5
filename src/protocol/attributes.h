// Attributes by the kind of value that has them; attributes.cpp chooses. Those that give a value answer null if there
// is no such attribute.
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

/// set_attribute; a null value deletes.
void write_attribute(Trace& trace, Value* object, PyObject* name, Value* value);

// ---- descriptors.cpp
bool is_data_descriptor(Trace& trace, PyObject* found);
/// True if a data descriptor on the class took the write; a null value deletes.
bool descriptor_took(Trace& trace, Value* object, PyTypeObject* type, PyObject* found, PyObject* name, Value* value);

// ---- attributes_objects.cpp
Value* object_attribute(Trace& trace, value::Object* object, PyObject* name);
void set_on_object(Trace& trace, value::Object* object, PyObject* name, Value* value);
/// `owner.__dict__`, one value for each owner, which keeps it in `known`.
Value* instance_dict(Trace& trace, Value* owner, Value*& known);
/// A descriptor in C found on the class of an Object: members, getset, methods.
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
/// The keywords as they are now: those of a partial from before are in a dict that the program may reach.
const value::Attributes& partial_keywords(Trace& trace, value::Partial* partial);
/// Into the instance dict of a value of a type in C (a partial, an OrderedDict); null deletes.
void store_held_attribute(Trace& trace, Value* holder, PyObject* name, Value* value);

// ---- classes.cpp
/// What stands in a real type for a value of its namespace: a real object of the same type. Runs no code of the user.
Owned<> stand_in(Trace& trace, Value* seen);

// ---- attributes_builtins.cpp
/// A field of a tuple by its descriptor (of a namedtuple; of a structure in C, by name); null if it is none.
Value* tuple_field(value::Tuple* tuple, PyObject* found, PyObject* name);
Value* builtin_attribute(Trace& trace, Value* value, PyObject* name);

}  // namespace gramme::protocol
