// Results of special methods (__bool__, __index__, …), checked as CPython's C code checks them. For protocol and
// builtins only.
#pragma once
#include "protocol/protocol.h"

namespace gramme::protocol {

enum class Answer : uint8_t {
#define ANSWER(name, type, text) of_##name,
#include "protocol/answers.def"
#undef ANSWER
};

/// Calls a bound special method. The result has exactly the type in answers.def (or is a Number of it). An instance of
/// a subclass ends the segment, because CPython warns or keeps it.
Value* answer(Trace& trace, Answer which, Value* method, std::initializer_list<Value*> args = {});
/// The same check for a result that exists already.
Value* checked_answer(Trace& trace, Answer which, Value* answered);
/// The hash that hash() makes of the int returned by a __hash__.
Py_hash_t hash_answered(PyObject* answered);

}  // namespace gramme::protocol
