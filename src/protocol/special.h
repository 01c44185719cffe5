// Lookup of special methods for operators, items and iteration. For this room only.
//
// An Object may have a payload: the Dict, List, Tuple, Set or Constant of its builtin base. A special method inherited
// from the base is applied to the payload; one that the class overrides is called and traced.
#pragma once
#include "protocol/protocol.h"

namespace gramme::protocol {

/// The payload, or null. Exceptions have none here, since they are no tuples.
Value* payload_of(Value* seen);
/// The payload if there is one, else the value itself.
inline Value* builtin_part(Value* seen) {
  Value* payload = payload_of(seen);
  return payload ? payload : seen;
}
/// True if the value's class may define its own operators: for Objects, instances of tuple subclasses, and classes with
/// a metaclass.
bool has_own_class(Value* seen);
/// The payload if the special method is inherited from the builtin base; else null.
Value* payload_for(Trace& trace, Value* seen, PyObject* name);
/// The bound special method that the class itself defines. Null if it is absent, None, object's, or the builtin base's.
/// Null for values without a class of their own.
Value* own_method(Trace& trace, Value* seen, PyObject* name);
/// Calls own_method; null if there is none or it returned NotImplemented.
Value* attempt(Trace& trace, Value* seen, PyObject* name, std::initializer_list<Value*> args);
/// True for an instance of a subclass of a builtin type with content (int, tuple …).
bool extends_builtin(Value* seen);
/// True for an instance of a subclass of this number type, whose value may be unknown.
bool extends(Value* seen, PyTypeObject* number);
/// True if the class' special method is None, which forbids the operation.
bool forbidden(Trace& trace, Value* seen, PyObject* name);

/// The interned name for a key of an instance's __dict__ or of globals; null if it is no str.
PyObject* name_key(Trace& trace, Value* key);
inline std::string type_name(Value* seen) { return type_of(seen)->tp_name; }
inline bool is_size(PyTypeObject* type) { return std::string_view(type->tp_name) == "torch.Size"; }
bool is_constant_of(Value* seen, PyTypeObject* type);
/// An int or bool constant.
bool is_int(Value* seen);
/// True if PyIndex_Check would hold; for Numbers, by their type.
bool has_index(Trace& trace, Value* seen);
/// True for an instance of a subclass of int, float, complex, str or bytes whose content is not guarded; members of
/// enumerations are.
bool is_opaque_scalar(Value* seen);
/// True if the left operand's C type accepts the right one, an instance of a builtin's subclass, before that class is
/// asked.
bool takes_first(Value* left, Value* right);
/// The result of a function called for real, as a value; its error becomes the program's exception.
Value* folded(Trace& trace, PyObject* result);
/// `raise type(text)` with "{}" in the text replaced by the name of the value's type.
[[noreturn]] void raise_about(Trace& trace, PyObject* type, std::string text, Value* seen);

/// Runs apply(), which computes with builtin parts of its operands if `parts`. A TypeError would name the builtin types
/// instead of the classes, so it ends the segment and CPython raises it.
template <class Apply>
Value* on_parts(Trace& trace, bool parts, Apply apply) {
  try {
    return apply();
  } catch (const value::UserError& error) {
    if (parts && matches(trace, error.exception, trace.pinned(PyExc_TypeError)))
      cannot(Reason::ArgumentKind, "a TypeError about an instance of a subclass");
    throw;
  }
}

/// trace.concrete(), but null if printing or comparing the object would run the program's code (classes with a
/// metaclass, namedtuples).
Owned<> inert(Trace& trace, Value* value);

/// Key and value pairs, in order, of a Dict or InstanceDict; false if it is neither.
bool mapping_entries(Trace& trace, Value* seen, std::vector<std::pair<Value*, Value*>>& entries);

}  // namespace gramme::protocol
