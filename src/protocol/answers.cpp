// Calls a special method and checks the type of its result by the rows of answers.def.
#include "protocol/answers.h"

#include "protocol/special.h"

namespace gramme::protocol {

using namespace value;

namespace {

struct Wanted {
  const char* method;
  PyTypeObject* type;
  const char* text;
};

Wanted wanted(Answer which) {
  switch (which) {
#define ANSWER(name, type, text) \
  case Answer::of_##name:        \
    return {"__" #name "__", &type, text};
#include "protocol/answers.def"
#undef ANSWER
  }
  GRAMME_BUG("an answer of no method");
}

}  // namespace

Value* checked_answer(Trace& trace, Answer which, Value* answered) {
  const Wanted of = wanted(which);
  answered = trace.see(answered);
  auto* number = as<Number>(answered);
  if ((number && number->type == of.type) || is_constant_of(answered, of.type)) return answered;
  const bool converted = of.type == &PyLong_Type && has_index(trace, answered);
  if (!*of.text || converted || PyType_IsSubtype(type_of(answered), of.type))
    cannot(Reason::OpaqueCallback, std::string(of.method) + " that returned a " + type_name(answered));
  raise_about(trace, PyExc_TypeError, of.text, answered);
}

Value* answer(Trace& trace, Answer which, Value* method, std::initializer_list<Value*> args) {
  return checked_answer(trace, which, call(trace, method, args));
}

Py_hash_t hash_answered(PyObject* answered) {
  Py_ssize_t hash = PyLong_AsSsize_t(answered);
  if (hash == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    hash = PyObject_Hash(answered);
  }
  return hash == -1 ? -2 : hash;
}

}  // namespace gramme::protocol
