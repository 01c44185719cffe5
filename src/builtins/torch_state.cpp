// Default dtype, deterministic algorithms and seeds. Replay sets them after the graph, so no operation that depends on
// them may follow; only the default dtype is passed explicitly (trace/defaults.cpp). The thread has the new state
// during the capture, so queries see it; the trace restores it.
#include "base/once.h"
#include "builtins/torch_support.h"

namespace gramme::builtins {

using namespace value;

namespace {

/// Restores the process's state at the end of the capture.
void undo_with(Trace& trace, PyObject* setter, const Owned<>& before) {
  trace.scope().modes().when_put_back([setter, before] {
    ErrorState pending;
    if (!Owned<>::steal(PyObject_CallOneArg(setter, before.get()))) PyErr_Clear();
  });
}

/// torch.set_default_dtype(dtype)
Value* set_default_dtype(Trace& trace, const Args& args) {
  PyObject* const set = once([] { return real("torch", "set_default_dtype"); });
  PyObject* const get = once([] { return real("torch", "get_default_dtype"); });
  PyTypeObject* const dtype = once([] { return Py_TYPE(real("torch", "float32")); });
  auto [argument] = bind(args, 1, {"d"});
  PyObject* wanted = trace.constant_of(argument);
  if (!wanted || !Py_IS_TYPE(wanted, dtype)) cannot(Reason::ArgumentKind, "torch.set_default_dtype");
  Owned<> before = take(PyObject_CallNoArgs(get));
  call_real(trace, set, {wanted});
  undo_with(trace, set, before);
  trace.call_in_replay(set, {trace.constant(wanted)});
  trace.scope().modes().note_default_dtype(before.get(), wanted);
  return trace.none();
}

/// torch.use_deterministic_algorithms(mode, warn_only=…); warn_only is keyword-only.
template <bool warn_only>
PyObject* deterministic_setter() {
  return once([] {
    Owned<> keywords = take(Py_BuildValue("{s:O}", "warn_only", warn_only ? Py_True : Py_False));
    Owned<> function = take(PyTuple_Pack(1, real("torch", "use_deterministic_algorithms")));
    return take(PyObject_Call(real("functools", "partial"), function.get(), keywords.get())).release();
  });
}

Value* use_deterministic(Trace& trace, const Args& args) {
  PyObject* const set[] = {deterministic_setter<false>(), deterministic_setter<true>()};
  PyObject* const is_on = once([] { return real("torch", "are_deterministic_algorithms_enabled"); });
  PyObject* const only_warns = once([] { return real("torch", "is_deterministic_algorithms_warn_only_enabled"); });
  auto [argument, warn] = bind(args, 1, {"mode", "warn_only"});
  PyObject *mode = trace.constant_of(argument), *warn_only = warn ? trace.constant_of(warn) : Py_False;
  bool flags = mode && warn_only && PyBool_Check(mode) && PyBool_Check(warn_only) && args.positional == 1;
  if (!flags) cannot(Reason::ArgumentKind, "torch.use_deterministic_algorithms");
  Owned<> before = take(PyObject_CallNoArgs(is_on));
  PyObject* back = set[take(PyObject_CallNoArgs(only_warns)).get() == Py_True];
  PyObject* setter = set[warn_only == Py_True];
  call_real(trace, setter, {mode});
  undo_with(trace, back, before);
  trace.call_in_replay(setter, {trace.boolean(mode == Py_True)});
  trace.scope().set_late_state("torch.use_deterministic_algorithms");
  return trace.none();
}

/// torch.manual_seed(seed): takes effect after earlier random operations; returns the default generator.
Value* manual_seed(Trace& trace, const Args& args) {
  PyObject* const seed = once([] { return real("torch.random", "manual_seed"); });
  auto [argument] = bind(args, 1, {"seed"});
  PyObject* number = trace.constant_of(argument);
  if (!number || !PyLong_CheckExact(number)) cannot(Reason::ArgumentKind, "torch.manual_seed");
  int overflow = 0;
  PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow) cannot(Reason::ArgumentKind, "torch.manual_seed of so large a number");
  auto* generator = trace.make<Object>();
  generator->type = Py_TYPE(real("torch", "default_generator"));
  trace.call_in_replay(seed, {trace.constant(number)}, generator);
  trace.scope().set_late_seed("torch.manual_seed");
  return generator;
}

}  // namespace

void register_torch_state() {
  add_rows("torch", {{"set_default_dtype", &set_default_dtype}, {"use_deterministic_algorithms", &use_deterministic}});
  add_rows("torch.random", {{"manual_seed", &manual_seed}});
}

}  // namespace gramme::builtins
