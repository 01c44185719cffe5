// Raising the program's exceptions symbolically, and matching them in except clauses.
#include <algorithm>
#include <vector>

#include "protocol/protocol.h"

namespace gramme::protocol {

using namespace value;

Object* make_exception(Trace& trace, PyTypeObject* type, std::vector<Value*> args) {
  return trace.exceptions.make(type, std::move(args));
}

void raise(Trace& trace, PyObject* type, const std::string& message) {
  Object* exception = make_exception(trace, reinterpret_cast<PyTypeObject*>(type), {trace.text(message)});
  trace.exceptions.note_own_text(exception);
  trace.exceptions.raise(exception);
}

void raise(Trace& trace, Value* exception) {
  auto* const base = reinterpret_cast<PyTypeObject*>(PyExc_BaseException);
  exception = trace.see(exception);
  if (auto* cls = as<Class>(exception); cls && PyType_IsSubtype(cls->type(), base))
    exception = trace.see(call(trace, cls, {}));
  auto* object = as<Object>(exception);
  if (!object || !PyType_IsSubtype(object->type, base))
    raise(trace, PyExc_TypeError, "exceptions must derive from BaseException");
  trace.exceptions.raise(object);
}

void raise_current(Trace& trace) { trace.exceptions.raise_error(); }

namespace {

/// The exception class of an except clause; raises TypeError for other values.
PyTypeObject* caught_class(Trace& trace, Value* classinfo) {
  auto* cls = trace.see_as<Class>(classinfo);
  if (!cls || !PyType_IsSubtype(cls->type(), reinterpret_cast<PyTypeObject*>(PyExc_BaseException)))
    raise(trace, PyExc_TypeError, "catching classes that do not inherit from BaseException is not allowed");
  return cls->type();
}

}  // namespace

bool matches(Trace& trace, Value* exception, Value* classinfo) {
  std::vector<PyTypeObject*> classes;  // all are checked before any is compared
  if (auto* several = trace.see_as<Tuple>(classinfo)) {
    for (Value* one : several->items) classes.push_back(caught_class(trace, one));
  } else {
    classes.push_back(caught_class(trace, classinfo));
  }
  PyTypeObject* raised = type_of(trace.see(exception));
  return std::any_of(classes.begin(), classes.end(), [&](PyTypeObject* cls) { return trace.is_subtype(raised, cls); });
}

}  // namespace gramme::protocol
