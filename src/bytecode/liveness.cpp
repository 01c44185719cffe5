#include "bytecode/liveness.h"

namespace gramme::bytecode {
namespace {

/// Whatever names a slot reads it, but a plain store: instructions that fail on an unbound slot do, and a cell slot is
/// read by every instruction that uses the cell.
bool reads_slot(Op op) { return opcode::operand(op) == opcode::Operand::Local && op != Op::STORE_FAST; }

/// COPY_FREE_VARS writes too, but what it overwrites is null.
bool writes_slot(Op op) { return op == Op::STORE_FAST || op == Op::DELETE_FAST || op == Op::LOAD_FAST_AND_CLEAR; }

}  // namespace

Liveness::Liveness(const Code& code)
    : code_(code),
      slots_(static_cast<size_t>(code.object()->co_nlocalsplus)),
      live_(code.instructions().size() * slots_, false) {
  while (pass()) {
  }
}

bool Liveness::pass() {
  bool changed = false;
  for (size_t index = code_.instructions().size(); index-- > 0;) changed |= update(index);
  return changed;
}

bool Liveness::update(size_t index) {
  const Instruction& instruction = code_.instructions()[index];
  const uint32_t flow = opcode::properties(instruction.op);
  const Handler* handler = code_.handler(instruction.at);
  bool changed = false;
  for (size_t slot = 0; slot < slots_; ++slot) {
    auto at = [&](int unit) { return live_[static_cast<size_t>(code_.index_of(unit)) * slots_ + slot]; };
    bool uses = instruction.arg == static_cast<int>(slot);
    const bool follows = !(flow & opcode::kEndsBlock) && index + 1 < code_.instructions().size();
    bool after = (follows && live_[(index + 1) * slots_ + slot]) || (instruction.target >= 0 && at(instruction.target));
    bool live = (after && !(uses && writes_slot(instruction.op))) || (uses && reads_slot(instruction.op)) ||
                (handler && at(handler->target));
    auto bit = live_[index * slots_ + slot];
    changed |= live && !bit;
    bit = bit || live;
  }
  return changed;
}

}  // namespace gramme::bytecode
