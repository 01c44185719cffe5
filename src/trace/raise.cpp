// Raises the program's exceptions symbolically, with context and cause.
#include <algorithm>
#include <utility>

#include "base/text.h"
#include "source/constant.h"
#include "trace/failures.h"

namespace gramme::trace {

using namespace value;

Object* Capture::exception(PyTypeObject* type, std::vector<Value*> args) {
  auto* made = make<Object>();
  made->type = type;
  made->payload = tuple(std::move(args));
  return made;
}

bool leads_to(Values& values, Value* from, const Value* to) {
  Values::Deeper deeper(values);
  auto* exception = from ? as<Object>(values.see(from)) : nullptr;
  if (!exception) return false;
  return exception == to || leads_to(values, exception->context, to) || leads_to(values, exception->cause, to);
}

void Capture::raise(Object* exception) {
  Value* during = handled_exception();
  if (during && see(during) != exception) {
    if (exception->existing()) cannot(Reason::MutationUnsupported, "the context of an exception that existed before");
    confinement.changes(exception);
    auto* each = as<Object>(see(during));  // as CPython: a chain that leads back to the exception is cut
    for (; each && each->context; each = as<Object>(see(each->context)))
      if (see(each->context) == exception) {
        confinement.changes(each);
        each->context = nullptr;
        break;
      }
    if (leads_to(*this, during, exception)) cannot(Reason::MutationUnsupported, "a cycle of exceptions");
    exception->context = during;
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
    if (!source::is_constant(arg)) cannot(Reason::OperatorFailed, "an exception whose arguments are not constant");
    values.push_back(adopt(share(arg)));
  }
  Object* made = exception(reinterpret_cast<PyTypeObject*>(owned_type.get()), std::move(values));
  note_own_text(made);
  raise(made);
}

void settle_failures(Capture& capture, const Value* exception) {
  std::vector<Failures::Failure>& untold = capture.state<Failures>().untold;
  for (const Failures::Failure& failure : std::exchange(untold, {}))
    if (exception && failure.exception != exception)
      untold.push_back(failure);
    else
      for (shape::Expr number : failure.numbers) capture.fixed(shape::SymInt(number));
}

void Capture::told(Value* exception) {
  for (Value* each = exception; each; each = as<Object>(each) ? as<Object>(each)->context : nullptr)
    settle_failures(*this, see(each));
  for (; exception && !untold_.empty(); exception = as<Object>(exception) ? as<Object>(exception)->context : nullptr) {
    exception = see(exception);
    auto place = std::find(untold_.begin(), untold_.end(), exception);
    if (place == untold_.end()) continue;
    untold_.erase(place);
    for (Value* argument : static_cast<Tuple*>(static_cast<Object*>(exception)->payload)->items)
      if (argument->kind == Kind::Constant && PyUnicode_Check(argument->object))
        classes.guard_names_in(utf8_of(argument->object));
  }
}

}  // namespace gramme::trace
