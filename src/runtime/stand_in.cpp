// The hook for calls of the function that has a stand-in.
#include "runtime/stand_in.h"

#include "base/process.h"
#include "base/ref.h"

namespace gramme::runtime {
namespace {

PyObject* call(const void* context, PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* kwnames);

struct State {
  RunInstead run = nullptr;
  cpython::CallHook hook{call, nullptr};
};
AtLoad<State> state;

PyObject* call(const void* /*context*/, PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  if (!kwnames && PyVectorcall_NARGS(nargsf) == 1)
    if (const int ran = state->run(args[0])) return ran < 0 ? nullptr : share(Py_None).release();
  return PyObject_Vectorcall(callable, args, nargsf, kwnames);
}

}  // namespace

void stand_in_for(PyObject* function, RunInstead run) {
  state.fill() = {run, {call, nullptr, share(function).release()}};
}

const cpython::CallHook* stand_in() { return state->hook.only ? &state->hook : nullptr; }

}  // namespace gramme::runtime
