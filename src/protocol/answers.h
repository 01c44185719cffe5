// What special methods may answer, for whoever asks them as CPython's C code does. Not for other rooms than builtins.
#pragma once
#include "protocol/protocol.h"

namespace gramme::protocol {

enum class Answer : uint8_t {
#define ANSWER(name, type, text) of_##name,
#include "protocol/answers.def"
#undef ANSWER
};

/// Calls a bound special method. What it returns is of the exact type that answers.def says (a Number too); an instance
/// of a subclass, of which CPython warns or which it keeps, ends the segment.
Value* answer(Trace& trace, Answer which, Value* method, std::initializer_list<Value*> args = {});
/// The same of an answer that is there already.
Value* checked_answer(Trace& trace, Answer which, Value* answered);
/// What hash() makes of the int that a __hash__ answered.
Py_hash_t hash_answered(PyObject* answered);

}  // namespace gramme::protocol
