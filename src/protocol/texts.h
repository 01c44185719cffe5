// What CPython says in errors, where its versions say different things.
#pragma once
#include <string>

#include "trace/trace.h"

namespace gramme::protocol {

/// Of an attribute that is read, and of one that is stored or deleted in an object whose class keeps no dict.
std::string no_attribute_text(Trace& trace, PyTypeObject* type, PyObject* name);
std::string no_place_text(PyTypeObject* type, PyObject* name);
/// Of `in`.
[[noreturn]] void raise_no_container(Trace& trace, Value* container);
/// Of super(type, object).
std::string wrong_super_text(Trace& trace, PyTypeObject* type, Value* object);
/// Of index() and remove() of a list or deque, called `method`. The item's repr() is run where the text has it.
[[noreturn]] void raise_not_in(Trace& trace, const std::string& method, const std::string& container, Value* item);
/// Of `a, b = values`; `counted`: a list, tuple or dict.
std::string too_many_text(int expected, size_t got, bool counted);

}  // namespace gramme::protocol
