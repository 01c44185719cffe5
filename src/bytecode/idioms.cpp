// Recognises statements by their compiled form: every pattern here must fit what each supported CPython compiles.
#include "bytecode/idioms.h"

#include <algorithm>

namespace gramme::bytecode {
namespace {

const Instruction* at_unit(const Code& code, int unit) {
  return &code.instructions()[static_cast<size_t>(code.index_of(unit))];
}

const Instruction* past_nops(const Instruction* from) {
  while (from->op == Op::NOP) ++from;
  return from;
}

/// The RAISE_VARARGS that the instructions from here reach in any case; null if they may go elsewhere.
const Instruction* certain_raise(const Instruction* from) {
  constexpr uint32_t kLeads = opcode::kJump | opcode::kEndsBlock;
  for (; from->op != Op::RAISE_VARARGS; ++from)
    if (from->op == Op::YIELD_VALUE || (opcode::properties(from->op) & kLeads)) return nullptr;
  return from;
}

/// The constant's index if the code up to the raise is AssertionError("text"), else -1.
int text_between(const Instruction* from, const Instruction* raise) {
  from = past_nops(from);
  const bool told = from->op == Op::LOAD_ASSERTION_ERROR && from[1].op == Op::LOAD_CONST && from[2].op == Op::CALL;
  return told && from + 3 == raise ? from[1].arg : -1;
}

/// True at the cleanup of an inlined comprehension, which drops the iterator and restores variables shared with the
/// function.
bool puts_back(const Instruction* from) {
  if (from->op != Op::SWAP || from[1].op != Op::POP_TOP) return false;
  for (from += 2; from->op == Op::SWAP || from->op == Op::STORE_FAST;) ++from;
  return from->op == Op::RERAISE;
}

bool wraps_stop_iteration(const Instruction& instruction) {
  constexpr int kStopIterationError = 3;
  return instruction.op == Op::CALL_INTRINSIC_1 && instruction.arg == kStopIterationError;
}

/// True for the instructions of an except clause that does not match.
bool is_passive(const Instruction& instruction) {
  static constexpr Op kPassive[] = {
      Op::PUSH_EXC_INFO, Op::LOAD_GLOBAL, Op::CHECK_EXC_MATCH, Op::POP_JUMP_IF_FALSE, Op::COPY,
      Op::POP_EXCEPT,    Op::NOP};
  return std::ranges::find(kPassive, instruction.op) != std::end(kPassive) || wraps_stop_iteration(instruction);
}

}  // namespace

std::optional<Assertion> assertion_at(const Code& code, const Instruction& jump) {
  const bool if_true = jump.op == Op::POP_JUMP_IF_TRUE;
  if ((!if_true && jump.op != Op::POP_JUMP_IF_FALSE) || jump.target <= jump.offset) return std::nullopt;
  const Instruction *next = at_unit(code, jump.next), *target = at_unit(code, jump.target);
  const Instruction *raised_next = certain_raise(next), *raised_target = certain_raise(target);
  if (!raised_next == !raised_target) return std::nullopt;
  if (raised_next) return Assertion{if_true, text_between(next, raised_next)};
  return Assertion{!if_true, text_between(target, raised_target)};
}

const Instruction* delegation_of(const Code&, const Instruction& suspends) {
  if (suspends.op != Op::YIELD_VALUE) return nullptr;
  const Instruction* before = &suspends - 1;  // an instruction stands in front: RESUME
  return before->op == Op::SEND || before->op == Op::SEND_PAIR ? before : nullptr;
}

Handles what_handles(const Code& code, const Handler& handler) {
  const Instruction* first = at_unit(code, handler.target);
  if (first->op == Op::COPY || first->op == Op::POP_EXCEPT) return Handles::ClearsUp;
  if (wraps_stop_iteration(*first) || first->op == Op::CLEANUP_THROW || puts_back(first)) return Handles::Internal;
  const bool is_last = first == &code.instructions().back();
  if (first->op == Op::PUSH_EXC_INFO && !is_last && first[1].op == Op::WITH_EXCEPT_START) return Handles::With;
  return Handles::Program;
}

const Handler* statement_handler(const Code& code, int at) {
  const Handler* handler = code.handler(at);
  while (handler && what_handles(code, *handler) == Handles::Internal) handler = code.handler(handler->target);
  return handler;
}

bool passes_through(const Code& code, int at, const std::function<bool(int name)>& lets_pass) {
  for (const Handler* handler = code.handler(at); handler; handler = code.handler(at)) {
    const Instruction* i = at_unit(code, handler->target);
    for (; i->op != Op::RERAISE && i->op != Op::CLEANUP_THROW;
         i = i->op == Op::POP_JUMP_IF_FALSE ? at_unit(code, i->target) : i + 1) {
      if (!is_passive(*i)) return false;
      if (i->op == Op::LOAD_GLOBAL && !lets_pass(i->arg >> 1)) return false;
    }
    at = i->at;
  }
  return true;
}

}  // namespace gramme::bytecode
