// Lists decoded instructions with readable operands.
#include "api/instructions.h"

#include "bytecode/code.h"
#include "cpython/encoding.h"

namespace nb = nanobind;

namespace gramme::api {
namespace {

using opcode::Operand;

/// What the argument refers to: a name or a constant; else the number itself.
nb::object operand_of(PyCodeObject* code, const bytecode::Instruction& instruction) {
  const int arg = instruction.arg;
  const Operand kind = opcode::operand(instruction.op);
  if (kind == Operand::Const) return nb::borrow(PyTuple_GET_ITEM(code->co_consts, arg));
  if (kind == Operand::Common) return nb::borrow(cpython::common_constant(arg));
  if (kind == Operand::Name) return nb::borrow(PyTuple_GET_ITEM(code->co_names, arg));
  if (kind == Operand::GlobalName || kind == Operand::SuperName)
    return nb::borrow(PyTuple_GET_ITEM(code->co_names, arg >> 1));
  if (kind == Operand::Local) return nb::borrow(PyTuple_GET_ITEM(code->co_localsplusnames, arg));
  return nb::int_(arg);
}

nb::list instructions(nb::handle code) {
  if (!PyCode_Check(code.ptr())) throw nb::type_error("a code object is needed");
  auto* object = reinterpret_cast<PyCodeObject*>(code.ptr());
  nb::list rows;
  for (const bytecode::Instruction& each : bytecode::decode(object).instructions())
    rows.append(nb::make_tuple(opcode::name(each.op), operand_of(object, each)));
  return rows;
}

}  // namespace

void bind_instructions(nb::module_& m) { m.def("instructions", instructions, nb::arg("code")); }

}  // namespace gramme::api
