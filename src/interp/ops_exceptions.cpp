// try, except, with. trace.exceptions.handled is the exception being handled; earlier ones are ordinary stack items, as
// in CPython.
#include "interp/ops.h"
#include "protocol/iterate.h"

namespace gramme::interp {

using namespace value;

Step push_exc_info(Interpreter& interp, Frame& frame, int) {
  Value* exception = frame.pop();
  frame.push(interp.trace.exceptions.handled ? interp.trace.exceptions.handled : interp.trace.none());
  frame.push(exception);
  interp.trace.exceptions.handled = exception;
  return Step::Next;
}

Step pop_except(Interpreter& interp, Frame& frame, int) {
  drop(interp, frame, interp.trace.exceptions.handled);
  Value* before = interp.trace.see(frame.pop());
  interp.trace.exceptions.handled = before == interp.trace.none() ? nullptr : before;
  if (!interp.trace.exceptions.current()) interp.raise_step = SIZE_MAX;
  return Step::Next;
}

Step check_exc_match(Interpreter& interp, Frame& frame, int) {
  Value* classinfo = frame.pop();
  frame.push(interp.trace.boolean(protocol::matches(interp.trace, frame.peek(1), classinfo)));
  return Step::Next;
}

Step reraise(Interpreter&, Frame& frame, int) { throw UserError{frame.pop(), true}; }

namespace {

bool is_exception(PyTypeObject* type) {
  return PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException));
}

bool is_exception_class(Value* seen) {
  auto* cls = as<Class>(seen);
  return cls && is_exception(cls->type());
}

/// The exception that `raise` makes by calling a class.
Value* called(trace::Trace& trace, Value* cls) {
  Value* exception = trace.see(protocol::call(trace, cls, {}));
  if (!is_exception(protocol::type_of(exception)))
    cannot(Reason::ArgumentKind, "an exception's class that makes something else");
  return exception;
}

}  // namespace

Step raise_varargs(Interpreter& interp, Frame& frame, int count) {
  trace::Trace& trace = interp.trace;
  if (count == 0) {
    Value* handled = trace.exceptions.current();
    if (!handled) protocol::raise(trace, PyExc_RuntimeError, "No active exception to reraise");
    throw UserError{handled, true};
  }
  Value* cause = count == 2 ? trace.see(frame.pop()) : nullptr;
  Value* raised = trace.see(frame.pop());
  if (is_exception_class(raised)) raised = called(trace, raised);
  if (auto* exception = as<Object>(raised); exception && is_exception(exception->type) && cause) {
    if (is_exception_class(cause)) cause = called(trace, cause);
    if (cause != trace.none() && !is_exception(protocol::type_of(cause)))
      protocol::raise(trace, PyExc_TypeError, "exception causes must derive from BaseException");
    if (exception->existing()) cannot(Reason::MutationUnsupported, "the cause of an exception that existed before");
    if (trace.exceptions.leads_to(cause, exception)) cannot(Reason::MutationUnsupported, "a cycle of exceptions");
    trace.confinement.changes(exception);
    exception->cause = cause == trace.none() ? nullptr : cause;
    exception->suppress_context = true;
  }
  protocol::raise(trace, raised);
}

Step before_with(Interpreter& interp, Frame& frame, int) {
  trace::Trace& trace = interp.trace;
  static PyObject *const enter_name = intern("__enter__"), *const exit_name = intern("__exit__");
  Value* manager = trace.see(frame.peek(1));
  Value* enter = protocol::special_method(trace, manager, enter_name);
  Value* exit = enter ? protocol::special_method(trace, manager, exit_name) : nullptr;
  if (!exit) {
    std::string what = std::string("'") + protocol::type_of(manager)->tp_name +
                       "' object does not support the context manager protocol";
    protocol::raise(trace, PyExc_TypeError, enter ? what + " (missed __exit__ method)" : what);
  }
  Value* entered = protocol::call(trace, enter, {});
  frame.peek(1) = exit;
  frame.push(entered);
  return Step::Next;
}

/// A StopIteration that leaves a generator becomes RuntimeError in Interpreter::resume. Nobody resumed the root, so
/// there it ends the segment; other exceptions pass.
Step call_intrinsic_1(Interpreter& interp, Frame& frame, int number) {
  constexpr int kStopIterationError = 3;
  if (number != kStopIterationError) return unsupported(interp, frame, number);
  if (frame.generator) return Step::Next;
  PyTypeObject* raised = protocol::type_of(interp.trace.see(frame.peek(1)));
  for (PyObject* stop : {PyExc_StopIteration, PyExc_StopAsyncIteration})
    if (PyType_IsSubtype(raised, reinterpret_cast<PyTypeObject*>(stop))) return unsupported(interp, frame, number);
  return Step::Next;
}

/// Stack: iterator, value sent, exception.
Step cleanup_throw(Interpreter& interp, Frame& frame, int) {
  Value* returned = protocol::stop_value(interp.trace, UserError{frame.peek(1), true});
  frame.drop(3);
  frame.push(interp.trace.none());
  frame.push(returned);
  return Step::Next;
}

/// Stack: exit (or function and self), lasti, previous exception, exception. The traceback is passed as a value that
/// cannot be looked into.
Step with_except_start(Interpreter& interp, Frame& frame, int) {
  trace::Trace& trace = interp.trace;
  Value* exception = trace.see(frame.peek(1));
  auto* traceback = trace.make<Object>();
  traceback->type = &PyTraceBack_Type;
  Value* type = protocol::class_value(trace, protocol::type_of(exception));
  std::vector<Value*> arguments{type, exception, traceback};
  if (cpython::kStack.with_pair && frame.peek(4)->kind != Kind::Null)
    arguments.insert(arguments.begin(), frame.peek(4));
  frame.push(protocol::call_with(trace, frame.peek(cpython::kStack.with_pair ? 5 : 4), arguments, {}));
  return Step::Next;
}

}  // namespace gramme::interp
