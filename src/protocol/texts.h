// Error messages that differ between versions of CPython.
#pragma once
#include <string>

#include "trace/trace.h"

namespace gramme::protocol {

/// AttributeErrors: for a missing attribute, and for storing or deleting one in an object without an instance dict.
std::string no_attribute_text(Trace& trace, PyTypeObject* type, PyObject* name);
std::string no_place_text(PyTypeObject* type, PyObject* name);
/// The TypeError of iter(object, sentinel).
const char* no_callable_text();
/// The TypeError of `in`.
[[noreturn]] void raise_no_container(Trace& trace, Value* container);
/// The TypeError of super(type, object).
std::string wrong_super_text(Trace& trace, PyTypeObject* type, Value* object);
/// The ValueError of `method` (index() or remove() of a list or deque). Runs the item's repr() if the message contains
/// it.
[[noreturn]] void raise_not_in(Trace& trace, const std::string& method, const std::string& container, Value* item);
/// The ValueError of `a, b = values`; `counted`: a list, tuple or dict.
std::string too_many_text(int expected, size_t got, bool counted);

}  // namespace gramme::protocol
