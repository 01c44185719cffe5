// Visitors over the registers and numbers that an instruction reads and writes.
#pragma once
#include "tape/computation.h"
#include "tape/fused.h"
#include "tape/python_call.h"
#include "tape/view.h"

namespace gramme::native {

template <class Visit>
void each_read(const Instruction& instruction, Visit&& visit) {
  if (instruction.call)
    for (const OperatorArgument& argument : instruction.call->arguments)
      for (Register r : argument.registers)
        if (r != kNone) visit(r);
  if (instruction.kind == Instruction::View) visit(view_of(instruction).source);
  if (instruction.kind == Instruction::Number && computation_of(instruction).of != kNone)
    visit(computation_of(instruction).of);
  if (instruction.kind == Instruction::Python)
    for (const auto& [value, place] : python_call(instruction).operands) each_register(place, visit);
  if (instruction.kind == Instruction::Fused)
    for (Register r : fused_of(instruction).read) visit(r);
}

template <class Visit>
void each_write(const Instruction& instruction, Visit&& visit) {
  if (instruction.call)
    for (const OperatorResult& result : instruction.call->results)
      for (Register r : result.registers)
        if (r != kNone) visit(r);
  if (instruction.kind == Instruction::View) visit(view_of(instruction).target);
  if (instruction.kind == Instruction::Python) each_register(python_call(instruction).result, visit);
  if (instruction.kind == Instruction::Fused)
    for (const Instruction& part : fused_of(instruction).parts) each_write(part, visit);
}

/// Visits arguments that the operator's schema declares as written.
template <class Visit>
void each_declared_write(const OperatorCall& call, Visit&& visit) {
  const auto& declared = call.op.schema().arguments();
  for (size_t i = 0; i < declared.size(); ++i)
    if (declared[i].alias_info() && declared[i].alias_info()->isWrite())
      for (Register r : call.arguments[i].registers)
        if (r != kNone) visit(r);
}

/// Visits arguments written without declaration and without version counters: running statistics.
template <class Visit>
void each_hidden_write(const OperatorCall& call, Visit&& visit) {
  if (call.op.operator_name().name != "aten::native_batch_norm" || !call.arguments[5].constant.toBool()) return;
  for (size_t i : {3, 4})
    for (Register r : call.arguments[i].registers)
      if (r != kNone) visit(r);
}

/// Visits the registers that are needed after the tape's end.
template <class Visit>
void each_left(const Tape& tape, Visit&& visit) {
  each_register(tape.output[0], visit);
  for (Register r : tape.kept)
    if (r != kNone) visit(r);
}

/// Visits the numbers that an instruction reads, except those of computations.
template <class Visit>
void each_number(const Instruction& instruction, Visit&& visit) {
  if (instruction.call)
    for (const OperatorArgument& argument : instruction.call->arguments)
      for (const Numeral& number : argument.numbers)
        if (number.kind == Numeral::Whole || number.kind == Numeral::Float) visit(number.index);
  if (instruction.kind == Instruction::View) each_number(view_of(instruction), visit);
  if (instruction.kind == Instruction::Python)
    for (const auto& [value, place] : python_call(instruction).operands) each_number(place, visit);
}

template <class Rename>
void rename_registers(Place& place, Rename&& rename) {
  if (place.kind == Place::Tensor) rename(place.index);
  for (Place& item : place.items) rename_registers(item, rename);
}

template <class Rename>
void rename_registers(std::vector<Register>& registers, Rename&& rename) {
  for (Register& r : registers)
    if (r != kNone) rename(r);
}

/// Renames registers; call before the instruction is bound to its operator.
template <class Rename>
void rename_registers(Instruction& instruction, Rename&& rename) {
  if (instruction.call) {
    for (OperatorArgument& argument : instruction.call->arguments) rename_registers(argument.registers, rename);
    for (OperatorResult& result : instruction.call->results) rename_registers(result.registers, rename);
  }
  if (instruction.kind == Instruction::View) {
    auto& view = static_cast<View&>(*instruction.bound);
    rename(view.source);
    rename(view.target);
  }
  if (instruction.kind == Instruction::Number) {
    auto& computation = static_cast<Computation&>(*instruction.bound);
    if (computation.of != kNone) rename(computation.of);
  }
  if (instruction.kind == Instruction::Python) {
    auto& call = static_cast<PythonCall&>(*instruction.bound);
    for (auto& [value, place] : call.operands) rename_registers(place, rename);
    rename_registers(call.result, rename);
  }
  if (instruction.kind == Instruction::Fused) {
    auto& fused = static_cast<Fused&>(*instruction.bound);
    for (Instruction& part : fused.parts) rename_registers(part, rename);
    for (Fused::Input& input : fused.inputs) rename(input.source);
    rename_registers(fused.read, rename);
    for (Fused::Output& output : fused.outputs) rename(output.target);
  }
}

}  // namespace gramme::native
