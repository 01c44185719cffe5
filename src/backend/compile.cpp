// Calls the backend with interrupts handled, and interprets what it returned or raised.
#include "backend/compile.h"

#include <optional>

#include "aten/interrupted.h"
#include "base/imported.h"
#include "base/interruption.h"
#include "base/once.h"
#include "base/signals.h"
#include "torch/names.h"

namespace gramme::backend {
namespace {

/// gramme._handover's answer to an exception of the backend: the exception to raise, or None to run the program
/// eagerly.
Owned<> failure(PyObject* backend, const Owned<>& error, const Owned<>& graph_module, bool whole) {
  Owned<> module = take(import_module("gramme._handover"));
  PyObject* may_run_plainly = whole ? Py_False : Py_True;
  return take(
      PyObject_CallMethod(module.get(), "failure", "OOOO", backend, error.get(), graph_module.get(), may_run_plainly));
}

/// Raises the exception that replaces the backend's; returns if the program is to run eagerly. Interruptions propagate.
void fail(PyObject* backend, const Owned<>& graph_module, bool whole) {
  if (is_interruption()) throw PythonError();
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Owned<> kind = Owned<>::steal(type), error = Owned<>::steal(value), where = Owned<>::steal(traceback);
  if (where) check(PyException_SetTraceback(error.get(), where.get()));
  Owned<> failed = failure(backend, error, graph_module, whole);
  if (failed.get() == Py_None) return;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(failed.get())), failed.get());
  throw PythonError();
}

/// def call(f, *args): return f(*args), with a stack so large that CPython gives it a new 1 MB chunk of its data stack.
/// Long runs of Python under it then never cross the edge of a 16 KB chunk, where a hot call maps and unmaps memory
/// each time.
PyObject* roomy_call() {
  PyObject* const function = once([] {
    Owned<> globals = take(PyDict_New());
    check(PyDict_SetItemString(globals.get(), "__builtins__", PyEval_GetBuiltins()));
    Owned<> code = take(Py_CompileString("lambda f, *args: f(*args)", "<gramme>", Py_eval_input));
    Owned<> lambda = take(PyEval_EvalCode(code.get(), globals.get(), globals.get()));
    Owned<> options = take(Py_BuildValue("{s:i}", "co_stacksize", 70000));
    Owned<> small = take(PyObject_GetAttrString(lambda.get(), "__code__"));
    Owned<> replace = take(PyObject_GetAttrString(small.get(), "replace"));
    Owned<> roomy = take(PyObject_Call(replace.get(), take(PyTuple_New(0)).get(), options.get()));
    check(PyObject_SetAttrString(lambda.get(), "__code__", roomy.get()));
    return lambda.release();
  });
  return function;
}

/// True if AOTAutograd found numbers that it cannot turn into tensors. It has recorded which, and wants to start again.
bool restarts() {
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return false;
  PyObject* raised = PyErr_Occurred();  // borrowed from the thread
  ErrorState pending;
  PyObject* const restart = of_torch::if_loaded(of_torch::TensorifyScalarRestartAnalysis);
  return restart && PyErr_GivenExceptionMatches(raised, restart);
}

bool hands_over(PyObject* backend) {
  static PyObject* const name = intern("hands_over");
  return PyObject_HasAttr(backend, name);
}

[[noreturn]] void refuse_result(PyObject* backend, const Owned<>& result) {
  Owned<> name = Owned<>::steal(PyObject_GetAttrString(backend, "__name__"));
  if (!name) {
    PyErr_Clear();
    name = take(PyObject_Str(reinterpret_cast<PyObject*>(Py_TYPE(backend))));
  }
  PyErr_Format(PyExc_TypeError, "backend '%S' returned a %s, which is not callable", name.get(),
               Py_TYPE(result.get())->tp_name);
  throw PythonError();
}

bool is_of_torch(PyObject* backend) {
  static PyObject* const name = intern("of_torch");
  const Owned<> of_torch = Owned<>::steal(PyObject_GetAttr(backend, name));
  PyErr_Clear();
  return of_torch.get() == Py_True;
}

/// Calls the backend as code of the program, with signal handlers running. Null with an exception set if it raises.
/// PyTorch's compilers may take a handler's exception for a failure of their own and continue, so it is kept.
Owned<> interruptibly(PyObject* const* arguments, size_t count) {
  PyObject* const call = roomy_call();
  const Owned<> finalizers = take(PyObject_CallNoArgs(imported("gramme._handover", "Finalizers").get()));
  const bool of_torch = hands_over(arguments[0]) && is_of_torch(arguments[0]);
  std::optional<HandlersKept> handlers;
  const auto run = [&] {
    const SignalsLet let;
    const aten::DispatchHoldsSignals operators;
    if (of_torch) handlers.emplace();
    return Owned<>::steal(PyObject_Vectorcall(call, arguments, count, nullptr));
  };
  Owned<> result = run();
  Owned<> kept;
  {
    ErrorState raised;
    kept = Owned<>::steal(PyObject_CallMethod(finalizers.get(), "close", nullptr));
    PyErr_Clear();
  }
  if (handlers && handlers->kept()) {
    if (result && handlers->postpone()) return result;
    handlers->raise();
    return {};
  }
  if (!result || !kept || kept.get() == Py_None) return result;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(kept.get())), kept.get());
  return {};
}

}  // namespace

Compiled compile(PyObject* backend, const Owned<>& graph_module, const std::vector<Owned<>>& inputs, PyObject* captured,
                 bool whole) {
  Owned<> examples = take(PyList_New(static_cast<Py_ssize_t>(inputs.size())));
  for (size_t i = 0; i < inputs.size(); ++i) PyList_SET_ITEM(examples.get(), i, share(inputs[i].get()).release());
  PyObject* arguments[] = {backend, graph_module.get(), examples.get(), captured};
  size_t count = captured && hands_over(backend) ? 4 : 3;
  Owned<> result = interruptibly(arguments, count);
  if (!result && restarts()) {
    PyErr_Clear();
    return {Compiled::Again, {}};
  }
  if (!result) {
    fail(backend, graph_module, whole);
    return {Compiled::Plain, {}};
  }
  if (count == 4 && result.get() == Py_NotImplemented) return {Compiled::NeedsConstants, {}};
  if (!PyCallable_Check(result.get())) refuse_result(backend, result);
  return {Compiled::Ready, std::move(result)};
}

}  // namespace gramme::backend
