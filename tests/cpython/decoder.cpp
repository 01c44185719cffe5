// The module `decoder`: what code of the running CPython is in gramme's vocabulary.
#include <string_view>

#include "base/ref.h"
#include "cpython/encoding.h"
#include "cpython/stack.h"

namespace {

using gramme::Owned;
using namespace gramme;

PyObject* parts_of(const cpython::Decoded& decoded) {
  PyObject* list = PyList_New(decoded.count);
  for (int i = 0; i < decoded.count; ++i)
    PyList_SET_ITEM(list, i, Py_BuildValue("(si)", opcode::name(decoded.parts[i].op), decoded.parts[i].arg));
  return list;
}

PyObject* instruction(const cpython::Decoded& d) {
  const char* raw = cpython::opcode_name(d.raw);
  return Py_BuildValue("{sisisisisisissszsN}", "offset", d.offset, "at", d.at, "next", d.next, "target", d.target,
                       "names", d.names, "inner", d.inner, "raw", raw ? raw : "", "wants_bool",
                       d.wants_bool ? "yes" : nullptr, "parts", parts_of(d));
}

/// decode(code, running): as compiled, or as the evaluator has it now.
PyObject* decode(PyObject*, PyObject* arguments) {
  PyObject* code;
  int running = 0;
  if (!PyArg_ParseTuple(arguments, "O!|p", &PyCode_Type, &code, &running)) return nullptr;
  auto* object = reinterpret_cast<PyCodeObject*>(code);
  Owned<> keeps;
  const cpython::Units units = running ? cpython::units_of(object) : cpython::compiled_units(object, &keeps);
  PyObject* list = PyList_New(0);
  for (int unit = 0; unit < units.count;) {
    const cpython::Decoded decoded = cpython::decode_at(units, unit);
    const Owned<> made = Owned<>::steal(instruction(decoded));
    if (PyList_Append(list, made.get()) < 0) return nullptr;
    unit = decoded.next;
  }
  return list;
}

/// effects(name, arg): (pops, net effect, net effect where it jumps), and properties.
PyObject* effects(PyObject*, PyObject* arguments) {
  const char* name;
  int arg;
  if (!PyArg_ParseTuple(arguments, "si", &name, &arg)) return nullptr;
  for (int i = 0; i < opcode::kCount; ++i) {
    const auto op = static_cast<opcode::Op>(i);
    if (std::string_view(opcode::name(op)) == name)
      return Py_BuildValue("(iiiI)", opcode::pops(op, arg), opcode::stack_effect(op, arg, false),
                           opcode::stack_effect(op, arg, true), opcode::properties(op));
  }
  return PyErr_Format(PyExc_KeyError, "%s", name);
}

/// common_constants(count)
PyObject* common_constants(PyObject*, PyObject* count) {
  PyObject* list = PyList_New(0);
  for (long i = 0; i < PyLong_AsLong(count); ++i) PyList_Append(list, cpython::common_constant(static_cast<int>(i)));
  return list;
}

/// special_names(count)
PyObject* special_names(PyObject*, PyObject* count) {
  PyObject* list = PyList_New(0);
  for (long i = 0; i < PyLong_AsLong(count); ++i) PyList_Append(list, cpython::special_name(static_cast<int>(i)));
  return list;
}

PyMethodDef methods[] = {
    {"decode", decode, METH_VARARGS, nullptr},
    {"effects", effects, METH_VARARGS, nullptr},
    {"common_constants", common_constants, METH_O, nullptr},
    {"special_names", special_names, METH_O, nullptr},
    {},
};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "decoder", nullptr, -1, methods};

}  // namespace

PyMODINIT_FUNC PyInit_decoder() {
  PyObject* made = PyModule_Create(&module);
#define STACK(what, value) PyModule_AddIntConstant(made, #what, value);
#include "cpython/opcodes/rows.inc"
  return made;
}
