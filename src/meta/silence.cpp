// Patches warnings, the C++ warning handler, saved-tensor hooks and loggers for the duration of a call.
#include "meta/silence.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include "aten/dispatched.h"
#include "aten/python.h"
#include "base/imported.h"
#include "base/once.h"
#include "base/process.h"
#include "torch/names.h"

namespace gramme::meta {
namespace {

struct Thread {
  Silence* active = nullptr;  // the innermost
};
thread_local constinit Thread of_thread;

struct State {
  int quiet = 0;  // GIL, a word: Quiet objects of all threads
};
Lasting<State> state;

/// The match() of our filter's pattern: true on silenced threads only, so other threads still warn.
PyObject* matches(PyObject*, PyObject* text) {
  if (of_thread.active) {
    of_thread.active->warned = true;
    of_thread.active->text = share(text);
  }
  return PyBool_FromLong(of_thread.active != nullptr);
}

/// The entry for warnings.filters.
PyObject* ignoring() {
  static PyMethodDef method{"match", matches, METH_O, nullptr};
  Owned<> make = imported("types", "SimpleNamespace");
  Owned<> match = take(PyCFunction_New(&method, nullptr)), none = take(PyTuple_New(0));
  Owned<> keywords = take(Py_BuildValue("{s:O}", "match", match.get()));
  Owned<> matcher = take(PyObject_Call(make.get(), none.get(), keywords.get()));
  return take(Py_BuildValue("sOOOi", "ignore", matcher.get(), PyExc_Warning, Py_None, 0)).release();
}

/// A Python function that calls another through more frames than a stacklevel of PyTorch's skips.
PyObject* far_away() {
  constexpr const char* kSource =
      "def call(function, args, kwargs, frames=5):\n"
      "    return call(function, args, kwargs, frames - 1) if frames else function(*args, **kwargs)\n";
  Owned<> code = take(Py_CompileString(kSource, "<inference>", Py_file_input));
  Owned<> globals = take(Py_BuildValue("{s:s}", "__name__", "gramme"));
  check(PyDict_SetItemString(globals.get(), "__builtins__", PyEval_GetBuiltins()));
  take(PyEval_EvalCode(code.get(), globals.get(), globals.get()));
  return share(PyDict_GetItemString(globals.get(), "call")).release();
}

void set_log_disabled(PyObject* disabled) {
  PyObject* const log = of_torch::object(of_torch::FakeTensorLog);
  if (PyObject_SetAttrString(log, "disabled", disabled) < 0) PyErr_Clear();
}

/// Scope without the program's torch function modes.
class PlainFunctions {
 public:
  PlainFunctions() : state_(at::impl::PythonTorchFunctionTLS::get_disabled_state()) {
    at::impl::PythonTorchFunctionTLS::set_disabled_state(at::impl::TorchFunctionDisabledState::ALL_DISABLED);
  }
  ~PlainFunctions() { at::impl::PythonTorchFunctionTLS::set_disabled_state(state_); }
  PlainFunctions(const PlainFunctions&) = delete;

 private:
  at::impl::TorchFunctionDisabledState state_;
};

}  // namespace

Quiet::Quiet() {
  if (state->quiet++ == 0) set_log_disabled(Py_True);
}

Quiet::~Quiet() {
  ErrorState pending;
  if (--state->quiet == 0) set_log_disabled(Py_False);
}

Silence::Silence() : outer_(of_thread.active), always_(c10::WarningUtils::get_warnAlways()) {
  PyObject* const row = once([] { return ignoring(); });
  module_ = take(import_module("warnings"));
  filters_ = take(PyObject_GetAttrString(module_.get(), "filters"));
  Owned<> silent = take(PyList_New(1));
  PyList_SET_ITEM(silent.get(), 0, share(row).release());
  check(PyList_SetSlice(silent.get(), 1, 1, filters_.get()));
  check(PyObject_SetAttrString(module_.get(), "filters", silent.get()));
  c10::WarningUtils::set_warnAlways(true);
  unhooked_ = at::SavedTensorDefaultHooks::set_tracing(true);
  of_thread.active = this;
}

Silence::~Silence() {
  ErrorState pending;
  of_thread.active = outer_;
  at::SavedTensorDefaultHooks::set_tracing(unhooked_);
  c10::WarningUtils::set_warnAlways(always_);
  if (PyObject_SetAttrString(module_.get(), "filters", filters_.get()) < 0) PyErr_Clear();
}

PyObject* Silence::call(PyObject* function, PyObject* args, PyObject* kwargs) {
  PyObject* const far = once([] { return far_away(); });
  Owned<> none;
  if (!kwargs) kwargs = (none = take(PyDict_New())).get();
  return PyObject_CallFunctionObjArgs(far, function, args, kwargs, nullptr);
}

PyObject* warning_of_list_as_subscript(bool slice) {
  auto warned_by = [](Owned<> item) -> PyObject* {
    Silence silence;
    aten::OnFakes uncounted;
    const PlainFunctions plain;
    Owned<> tensor = aten::object_of(at::zeros({1})), key = take(PyList_New(1));
    PyList_SET_ITEM(key.get(), 0, item.release());
    Owned<> args = take(PyTuple_Pack(2, tensor.get(), key.get()));
    Owned<> found = Owned<>::steal(Silence::call(imported("_operator", "getitem").get(), args.get(), nullptr));
    if (!found) PyErr_Clear();
    return found && silence.text ? silence.text.release() : nullptr;
  };
  if (slice) return once([&] { return warned_by(take(PySlice_New(nullptr, nullptr, nullptr))); });
  return once([&] { return warned_by(share(Py_None)); });
}

}  // namespace gramme::meta
