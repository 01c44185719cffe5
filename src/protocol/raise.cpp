// The program's own exceptions, raised symbolically.
#include "protocol/protocol.h"
#include "source/constant.h"

namespace gramme::protocol {

using namespace value;

Object* make_exception(Trace& trace, PyTypeObject* type, std::vector<Value*> args) {
  auto* exception = trace.make<Object>();
  exception->type = type;
  exception->payload = trace.tuple(std::move(args));
  return exception;
}

namespace {

[[noreturn]] void throw_it(Trace& trace, Object* exception) {
  if (!exception->existing() && trace.handled && trace.handled != exception && !exception->context)
    exception->context = trace.handled;
  throw UserError{exception};
}

}  // namespace

void raise(Trace& trace, PyObject* type, const std::string& message) {
  throw_it(trace, make_exception(trace, reinterpret_cast<PyTypeObject*>(type), {trace.text(message)}));
}

void raise(Trace& trace, Value* exception) {
  exception = trace.see(exception);
  if (auto* cls = as<Class>(exception)) exception = trace.see(call(trace, cls, {}));
  auto* object = as<Object>(exception);
  if (!object || !PyType_IsSubtype(object->type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException)))
    raise(trace, PyExc_TypeError, "exceptions must derive from BaseException");
  throw_it(trace, object);
}

void raise_current(Trace& trace) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Owned<> owned_type = Owned<>::steal(type), owned = Owned<>::steal(value), owned_traceback = Owned<>::steal(traceback);
  Owned<> args = take(PyObject_GetAttrString(owned.get(), "args"));
  std::vector<Value*> values;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args.get()); ++i) {
    PyObject* arg = PyTuple_GET_ITEM(args.get(), i);
    if (!source::is_constant(arg)) cannot(Reason::OperatorFailed, "an exception with arguments that are no constants");
    values.push_back(trace.adopt(share(arg)));
  }
  throw_it(trace, make_exception(trace, reinterpret_cast<PyTypeObject*>(owned_type.get()), std::move(values)));
}

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
