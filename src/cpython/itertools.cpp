// Sets the state by __setstate__, or by layout in versions without it.
#include "cpython/itertools.h"

#include <cstring>

#include "base/imported.h"
#include "base/once.h"
#include "cpython/features.h"

namespace gramme::cpython {

namespace {

PyObject* cycle_type() {
  PyObject* const type = once([] { return imported("itertools", "cycle").release(); });
  return type;
}

#if GRAMME_PYTHON_ITERTOOLS_STATE
Owned<> put_state(PyObject* iterator, PyObject* state) {
  return Owned<>::steal(PyObject_CallMethod(iterator, "__setstate__", "(O)", state));
}

PyObject* set(PyObject*, PyObject* const* args, Py_ssize_t) { return put_state(args[0], args[1]).release(); }

PyObject* make_cycle(PyObject*, PyObject* const* args, Py_ssize_t) {
  const bool first_pass = PyLong_AsLong(args[2]) < 0;
  Owned<> items = first_pass ? share(args[0]) : Owned<>::steal(PyObject_GetIter(args[1]));
  if (!items || (!first_pass && !put_state(items.get(), args[2]))) return nullptr;
  Owned<> made = Owned<>::steal(PyObject_CallOneArg(cycle_type(), items.get()));
  Owned<> state = made ? Owned<>::steal(PyTuple_Pack(2, args[1], first_pass ? Py_False : Py_True)) : Owned<>();
  return state && put_state(made.get(), state.get()) ? made.release() : nullptr;
}
#else
struct Chain {
  PyObject_HEAD PyObject *source, *active;
};
struct Cycle {
  PyObject_HEAD PyObject *source, *saved;
  Py_ssize_t index;  // into `saved`; 0 or -1 while the source has items
#if GRAMME_PYTHON_CYCLE_FLAG
  int saves_nothing;
#endif
};
struct While {
  PyObject_HEAD PyObject *predicate, *source;
  long decided;
};
struct Accumulate {
  PyObject_HEAD PyObject *total, *source, *function, *initial, *module;
};

template <class Layout>
Layout* laid_out(PyObject* iterator) {
  if (Py_TYPE(iterator)->tp_basicsize == sizeof(Layout)) return reinterpret_cast<Layout*>(iterator);
  PyErr_Format(PyExc_SystemError, "%s is laid out in a way that gramme does not know", Py_TYPE(iterator)->tp_name);
  return nullptr;
}

bool is(PyObject* iterator, const char* name) { return std::strcmp(Py_TYPE(iterator)->tp_name, name) == 0; }

PyObject* set(PyObject*, PyObject* const* args, Py_ssize_t) {
  PyObject *iterator = args[0], *state = args[1];
  if (is(iterator, "itertools.chain")) {
    auto* chain = laid_out<Chain>(iterator);
    if (!chain) return nullptr;
    Py_XSETREF(chain->source, Py_NewRef(PyTuple_GET_ITEM(state, 0)));
    if (PyTuple_GET_SIZE(state) > 1) Py_XSETREF(chain->active, Py_NewRef(PyTuple_GET_ITEM(state, 1)));
  } else if (is(iterator, "itertools.accumulate")) {
    auto* accumulate = laid_out<Accumulate>(iterator);
    if (!accumulate) return nullptr;
    Py_XSETREF(accumulate->total, Py_NewRef(state));
  } else {
    auto* conditional = laid_out<While>(iterator);
    if (!conditional) return nullptr;
    conditional->decided = 1;
  }
  Py_RETURN_NONE;
}

PyObject* make_cycle(PyObject*, PyObject* const* args, Py_ssize_t) {
  const Py_ssize_t index = PyLong_AsSsize_t(args[2]);
  Owned<> made = Owned<>::steal(PyObject_CallOneArg(cycle_type(), index < 0 ? args[0] : args[1]));
  auto* cycle = made ? laid_out<Cycle>(made.get()) : nullptr;
  if (!cycle) return nullptr;
  Py_SETREF(cycle->saved, Py_NewRef(args[1]));
  if (index >= 0) {
    Py_CLEAR(cycle->source);
    cycle->index = index < PyList_GET_SIZE(args[1]) ? index : 0;
  }
  return made.release();
}
#endif

using Fast = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);
PyCFunction as_method(Fast function) { return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function)); }

PyMethodDef setter = {"set_itertool", as_method(&set), METH_FASTCALL, nullptr};
PyMethodDef maker = {"make_cycle", as_method(&make_cycle), METH_FASTCALL, nullptr};

}  // namespace

PyObject* itertool_setter() {
  PyObject* const function = once([] { return take(PyCFunction_New(&setter, nullptr)).release(); });
  return function;
}

PyObject* cycle_maker() {
  PyObject* const function = once([] { return take(PyCFunction_New(&maker, nullptr)).release(); });
  return function;
}

}  // namespace gramme::cpython
