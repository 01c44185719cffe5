// The program's own exceptions, raised symbolically.
#include "source/constant.h"
#include "trace/capture.h"

namespace gramme::trace {

using namespace value;

Object* Capture::exception(PyTypeObject* type, std::vector<Value*> args) {
  auto* made = make<Object>();
  made->type = type;
  made->payload = tuple(std::move(args));
  return made;
}

void Capture::raise(Object* exception) {
  if (handled && see(handled) != exception) {
    if (exception->existing()) cannot(Reason::MutationUnsupported, "the context of an exception that existed before");
    if (!exception->context) exception->context = handled;
  }
  throw UserError{exception};
}

void Capture::raise_current() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Owned<> owned_type = Owned<>::steal(type), owned = Owned<>::steal(value), owned_traceback = Owned<>::steal(traceback);
  Owned<> args = take(PyObject_GetAttrString(owned.get(), "args"));
  std::vector<Value*> values;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args.get()); ++i) {
    PyObject* arg = PyTuple_GET_ITEM(args.get(), i);
    if (!source::is_constant(arg)) cannot(Reason::OperatorFailed, "an exception with arguments that are no constants");
    if (PyUnicode_Check(arg)) guard_names_in(PyUnicode_AsUTF8(arg));
    values.push_back(adopt(share(arg)));
  }
  raise(exception(reinterpret_cast<PyTypeObject*>(owned_type.get()), std::move(values)));
}

}  // namespace gramme::trace
