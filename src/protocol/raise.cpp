// The program's own exceptions, raised symbolically.
#include "protocol/protocol.h"

namespace gramme::protocol {

using namespace value;

Object* make_exception(Trace& trace, PyTypeObject* type, std::vector<Value*> args) {
  return trace.exception(type, std::move(args));
}

void raise(Trace& trace, PyObject* type, const std::string& message) {
  Object* exception = make_exception(trace, reinterpret_cast<PyTypeObject*>(type), {trace.text(message)});
  trace.note_own_text(exception);
  trace.raise(exception);
}

void raise(Trace& trace, Value* exception) {
  exception = trace.see(exception);
  if (auto* cls = as<Class>(exception)) exception = trace.see(call(trace, cls, {}));
  auto* object = as<Object>(exception);
  if (!object || !PyType_IsSubtype(object->type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException)))
    raise(trace, PyExc_TypeError, "exceptions must derive from BaseException");
  trace.raise(object);
}

void raise_current(Trace& trace) { trace.raise_current(); }

bool matches(Trace& trace, Value* exception, Value* classinfo) {
  classinfo = trace.see(classinfo);
  if (auto* several = as<Tuple>(classinfo)) {
    for (Value* one : several->items)
      if (matches(trace, exception, one)) return true;
    return false;
  }
  auto* cls = as<Class>(classinfo);
  if (!cls || !PyType_IsSubtype(cls->type(), reinterpret_cast<PyTypeObject*>(PyExc_BaseException)))
    raise(trace, PyExc_TypeError, "catching classes that do not inherit from BaseException is not allowed");
  return trace.is_subtype(type_of(trace.see(exception)), cls->type());
}

}  // namespace gramme::protocol
