// Special methods of the program's classes, as operators, items and iteration look for them. Not for other rooms.
//
// An Object may have a payload: the Dict, List, Tuple, Set or Constant that a base in C holds. A special method that is
// still the base's own is carried out on the payload; one that the class overrides is called, and so traced.
#pragma once
#include "protocol/protocol.h"

namespace gramme::protocol {

/// What a base in C holds, or null. Exceptions have none in this sense: they are no tuples.
Value* payload_of(Value* seen);
/// The payload if it answers to what was asked, else the value itself.
inline Value* builtin_part(Value* seen) {
  Value* payload = payload_of(seen);
  return payload ? payload : seen;
}
/// True if the class of the value may define operators of its own. True for Objects, instances of tuple subclasses, and
/// classes with a metaclass.
bool has_own_class(Value* seen);
/// The payload, if the special method is that of the base in C which holds it; else null.
Value* payload_for(Trace& trace, Value* seen, PyObject* name);
/// The bound special method, or null: absent, None, object's own, or one of the base that holds the payload. Values
/// without a class of their own have none.
Value* own_method(Trace& trace, Value* seen, PyObject* name);
/// Calls own_method; null if there is none or it returned NotImplemented.
Value* attempt(Trace& trace, Value* seen, PyObject* name, std::initializer_list<Value*> args);
/// True for an instance of a subclass of a builtin's type that holds a value (an int's, a tuple's …).
bool extends_builtin(Value* seen);
/// True for an instance of a subclass of the number's type, whose value gramme may not know.
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
/// True if PyIndex_Check holds. (Numbers: by their type.)
bool has_index(Trace& trace, Value* seen);
/// An instance of a subclass of int, float, complex, str or bytes whose content no guard says (those of enumerations
/// are known).
bool is_opaque_scalar(Value* seen);
/// True if the left operand is of a type in C which takes the right one, of a subclass of a type in C, before the class
/// of the right one is asked.
bool takes_first(Value* left, Value* right);
/// The result of a really called function: adopted, or its error as the program's exception.
Value* folded(Trace& trace, PyObject* result);
/// `raise type(text)` with "{}" in the text replaced by the name of the value's type.
[[noreturn]] void raise_about(Trace& trace, PyObject* type, std::string text, Value* seen);

/// apply(), which computes with the builtin parts of its operands where `parts` says so: a TypeError would name the
/// builtin types in place of their classes, so CPython composes it.
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

/// trace.concrete, but nothing whose text or comparison would run code of the program (classes with a metaclass,
/// namedtuples).
Owned<> inert(Trace& trace, Value* value);

/// Key and value pairs, in order, of a Dict or InstanceDict; false if it is neither.
bool mapping_entries(Trace& trace, Value* seen, std::vector<std::pair<Value*, Value*>>& entries);

}  // namespace gramme::protocol
