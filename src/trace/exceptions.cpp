// Raises the program's exceptions symbolically, with context and cause.
#include "trace/exceptions.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "source/constant.h"

namespace gramme::trace {

using namespace value;

Object* Exceptions::make(PyTypeObject* type, std::vector<Value*> args) {
  auto* made = values_.make<Object>();
  made->type = type;
  made->payload = values_.tuple(std::move(args));
  return made;
}

bool Exceptions::leads_to(Value* from, const Value* to) {
  Values::Deeper deeper(values_);
  auto* exception = from ? as<Object>(values_.see(from)) : nullptr;
  if (!exception) return false;
  return exception == to || leads_to(exception->context, to) || leads_to(exception->cause, to);
}

void Exceptions::raise(Object* exception) {
  Value* during = current();
  if (during && values_.see(during) != exception) {
    if (exception->existing()) cannot(Reason::MutationUnsupported, "the context of an exception that existed before");
    confinement_.changes(exception);
    auto* each = as<Object>(values_.see(during));  // as CPython: a chain that leads back to the exception is cut
    for (; each && each->context; each = as<Object>(values_.see(each->context)))
      if (values_.see(each->context) == exception) {
        confinement_.changes(each);
        each->context = nullptr;
        break;
      }
    if (leads_to(during, exception)) cannot(Reason::MutationUnsupported, "a cycle of exceptions");
    exception->context = during;
  }
  throw UserError{exception};
}

void Exceptions::raise_error() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Owned<> owned_type = Owned<>::steal(type), owned = Owned<>::steal(value), owned_traceback = Owned<>::steal(traceback);
  Owned<> args = take(PyObject_GetAttrString(owned.get(), "args"));
  std::vector<Value*> values;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args.get()); ++i) {
    PyObject* arg = PyTuple_GET_ITEM(args.get(), i);
    if (!source::is_constant(arg)) cannot(Reason::OperatorFailed, "an exception whose arguments are not constant");
    values.push_back(values_.adopt(share(arg)));
  }
  Object* made = make(reinterpret_cast<PyTypeObject*>(owned_type.get()), std::move(values));
  note_own_text(made);
  raise(made);
}

void Exceptions::raise_error_with(std::vector<shape::Expr> numbers) {
  try {
    raise_error();
  } catch (const UserError& error) {
    failures_.push_back({static_cast<Object*>(error.exception), std::move(numbers)});
    throw;
  }
}

void Exceptions::settle(Inliner* inliner, const Value* exception) {
  for (const Failure& failure : std::exchange(failures_, {}))
    if (exception && failure.exception != exception)
      failures_.push_back(failure);
    else
      for (shape::Expr number : failure.numbers)
        if (!shape::SymInt(number).is_number()) shapes_.fix(number, inliner ? inliner->position() : nullptr);
}

void Exceptions::told(Value* exception, Inliner* inliner) {
  for (Value* each = exception; each; each = as<Object>(each) ? as<Object>(each)->context : nullptr)
    settle(inliner, values_.see(each));
  for (; exception && !untold_.empty(); exception = as<Object>(exception) ? as<Object>(exception)->context : nullptr) {
    exception = values_.see(exception);
    auto place = std::find(untold_.begin(), untold_.end(), exception);
    if (place == untold_.end()) continue;
    untold_.erase(place);
    for (Value* argument : static_cast<Tuple*>(static_cast<Object*>(exception)->payload)->items)
      if (argument->kind == Kind::Constant && PyUnicode_Check(argument->object))
        classes_.guard_names_in(utf8_of(argument->object));
  }
}

}  // namespace gramme::trace
