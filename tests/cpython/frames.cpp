// The module `frames`: live frames of the running CPython, taken by an evaluation hook and written back.
#include "cpython/encoding.h"
#include "cpython/generator_image.h"

#define Py_BUILD_CORE 1
#include <internal/pycore_ceval.h>
#include <internal/pycore_interp.h>
#undef Py_BUILD_CORE

#include <vector>

#include "base/ref.h"
#include "rooms.h"
#include "stepper.h"

namespace frames {
namespace {

using gramme::Owned;
using gramme::cpython::current_frame;
using gramme::cpython::frame_of;
using gramme::cpython::FrameImage;
using gramme::cpython::LiveFrame;
using gramme::cpython::SlotKind;

struct Hook {
  Owned<> codes;  // whose frames are taken; null: none
  Rules rules{};
  bool once = false;
} hook;

PyObject* evaluate(PyThreadState* thread, _PyInterpreterFrame* raw, int throwing);

void install(bool on) {
  _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), on ? evaluate : _PyEval_EvalFrameDefault);
}

PyObject* evaluate(PyThreadState* thread, _PyInterpreterFrame* raw, int throwing) {
  const FrameImage frame(raw);
  const bool wanted = hook.codes && PySet_Contains(hook.codes.get(), reinterpret_cast<PyObject*>(frame.code())) == 1;
  if (!wanted) return _PyEval_EvalFrameDefault(thread, raw, throwing);
  const Rules rules = hook.rules;
  if (hook.once) {
    install(false);
    hook.codes = {};
  }
  return run(thread, LiveFrame(raw), rules, throwing);
}

/// take(codes, steps, lends, moves, once, aware): frames of these code objects run so many instructions in C++. None:
/// no hook.
PyObject* take(PyObject*, PyObject* arguments) {
  PyObject* codes;
  int steps = 0, lends = 0, moves = 0, once = 0, aware = 0;
  if (!PyArg_ParseTuple(arguments, "O|ipppp", &codes, &steps, &lends, &moves, &once, &aware)) return nullptr;
  install(codes != Py_None);
  hook.codes = codes == Py_None ? Owned<>() : Owned<>::share(codes);
  hook.rules = {steps, lends ? Holds::AsCompiled : Holds::All, moves ? Calls::Moved : Calls::Vectorcall, aware != 0};
  hook.once = once;
  Py_RETURN_NONE;
}

/// call(function, arguments, steps, lends, moves, aware): its frame begins here, and no hook is in.
PyObject* call(PyObject*, PyObject* arguments) {
#if GRAMME_PYTHON_TAGGED_SLOTS && GRAMME_PYTHON_EXPORTED_FRAMES
  PyObject *function, *values;
  int steps = 0, lends = 0, moves = 0, aware = 0;
  if (!PyArg_ParseTuple(arguments, "O!O!ippp", &PyFunction_Type, &function, &PyTuple_Type, &values, &steps, &lends,
                        &moves, &aware))
    return nullptr;
  const Rules rules{steps, lends ? Holds::AsCompiled : Holds::All, moves ? Calls::Moved : Calls::Vectorcall,
                    aware != 0};
  std::vector<_PyStackRef> owned;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(values); ++k)
    owned.push_back(PyStackRef_FromPyObjectNew(PyTuple_GET_ITEM(values, k)));
  PyThreadState* thread = PyThreadState_Get();
  auto* raw = _PyEvalFramePushAndInit(thread, PyStackRef_FromPyObjectNew(function), nullptr, owned.data(), owned.size(),
                                      nullptr, nullptr);
  return raw ? run(thread, LiveFrame(raw), rules, 0) : nullptr;
#else
  static_cast<void>(arguments);
  return PyErr_Format(PyExc_NotImplementedError, "not on this version");
#endif
}

/// The innermost frame of Python code, and those it was called from.
_PyInterpreterFrame* python_frame(_PyInterpreterFrame* raw) {
#if GRAMME_PYTHON_FOREIGN_FRAMES
  while (raw && _PyFrame_IsIncomplete(raw)) raw = raw->previous;
#endif
  return raw;
}

/// make_safe(): each slot of the caller and of those it was called from gets a reference of its own.
PyObject* make_safe(PyObject*, PyObject* const*, Py_ssize_t) {
  for (auto* raw = python_frame(current_frame(PyThreadState_Get())); raw; raw = python_frame(raw->previous))
    FrameImage(raw).make_safe();
  Py_RETURN_NONE;
}

/// nothing(): what make_safe() is compared with.
PyObject* nothing(PyObject*, PyObject* const*, Py_ssize_t) { Py_RETURN_NONE; }

PyObject* kinds(FrameImage frame, bool of_stack) {
  static const char* const names[] = {"empty", "owned", "borrowed", "index"};
  const int count = of_stack ? frame.depth() : frame.local_count();
  PyObject* list = PyList_New(count);
  for (int k = 0; list && k < count; ++k) {
    const SlotKind kind = of_stack ? frame.item_kind(count - k) : frame.local_kind(k);
    PyList_SET_ITEM(list, k, PyUnicode_FromString(names[static_cast<int>(kind)]));
  }
  return list;
}

/// kinds_of_generator(generator): of locals and stack, suspended.
PyObject* kinds_of_generator(PyObject*, PyObject* generator) {
  return Py_BuildValue("(NN)", kinds(frame_of(generator), false), kinds(frame_of(generator), true));
}

/// write_generator(generator, slot, value): a local of a suspended frame, made safe first.
PyObject* write_generator(PyObject*, PyObject* arguments) {
  PyObject *generator, *value;
  int slot;
  if (!PyArg_ParseTuple(arguments, "OiO", &generator, &slot, &value)) return nullptr;
  frame_of(generator).make_safe();
  frame_of(generator).set_local(slot, Py_NewRef(value));
  Py_RETURN_NONE;
}

/// counts(): instructions stepped, frames handed over, most instructions of a frame; opcodes that are not carried out.
PyObject* counted(PyObject*, PyObject*) {
  Owned<> unknown = Owned<>::steal(PyDict_New());
  for (int opcode = 0; opcode < 256; ++opcode) {
    if (!counts.unknown[opcode]) continue;
    const Owned<> times = Owned<>::steal(PyLong_FromLong(counts.unknown[opcode]));
    const char* name = gramme::cpython::opcode_name(static_cast<uint8_t>(opcode));
    PyDict_SetItemString(unknown.get(), name ? name : "instrumented", times.get());
  }
  PyObject* result = Py_BuildValue("(lllO)", counts.stepped, counts.handed_over, counts.longest, unknown.get());
  counts = {};
  return result;
}

PyMethodDef methods[] = {
    {"take", take, METH_VARARGS, nullptr},
    {"call", call, METH_VARARGS, nullptr},
    {"make_safe", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(make_safe)), METH_FASTCALL, nullptr},
    {"nothing", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(nothing)), METH_FASTCALL, nullptr},
    {"kinds_of_generator", kinds_of_generator, METH_O, nullptr},
    {"write_generator", write_generator, METH_VARARGS, nullptr},
    {"counts", counted, METH_NOARGS, nullptr},
    {},
};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "frames", nullptr, -1, methods};

}  // namespace
}  // namespace frames

PyMODINIT_FUNC PyInit_frames() {
  PyObject* made = PyModule_Create(&frames::module);
  if (made) PyModule_AddFunctions(made, frames::of_rooms);
  return made;
}
