#include "program.h"

#if GRAMME_PYTHON_TAGGED_SLOTS
#include <algorithm>

#include "base/ref.h"
#include "cpython/code_object.h"
#include "metadata.h"

// no other header behind it: it defines names of the vocabulary as macros
#include <opcode.h>

namespace frames {
namespace {

using gramme::Owned;
using gramme::cpython::ExceptionTable;

bool jumps(int opcode) {
  switch (opcode) {
    case JUMP_FORWARD:
    case JUMP_BACKWARD:
    case JUMP_BACKWARD_NO_INTERRUPT:
    case POP_JUMP_IF_TRUE:
    case POP_JUMP_IF_FALSE:
    case POP_JUMP_IF_NONE:
    case POP_JUMP_IF_NOT_NONE:
    case FOR_ITER:
    case SEND:
    case RETURN_VALUE:
    case RAISE_VARARGS:
    case RERAISE:
      return true;
    default:
      return false;
  }
}

/// What the top items lend from after the instruction: CPython's compiler loads so within a basic block only.
void follow(const Instruction& i, std::vector<int>& lenders) {
  auto push = [&](int lender) { lenders.insert(lenders.begin(), lender); };
  auto pop = [&](int count) {
    lenders.erase(lenders.begin(), lenders.begin() + std::min<long>(count, lenders.size()));
  };
  auto at = [&](int n) { return static_cast<size_t>(n) <= lenders.size() ? lenders[n - 1] : -1; };
  switch (i.opcode) {
    case LOAD_FAST_BORROW:
      return push(i.arg);
    case LOAD_FAST_BORROW_LOAD_FAST_BORROW:
      push(i.arg >> 4);
      return push(i.arg & 15);
    case COPY:
      return push(at(i.arg));
    case SWAP:
      while (lenders.size() < static_cast<size_t>(i.arg)) lenders.push_back(-1);
      return std::swap(lenders[0], lenders[i.arg - 1]);
    case LOAD_ATTR:
      if (i.arg & 1) {  // a method's self is what was on the stack
        const int self = at(1);
        pop(1);
        push(-1);
        return push(self);
      }
      break;
    case LOAD_SPECIAL: {
      const int self = at(1);
      pop(1);
      push(-1);
      return push(self);
    }
    default:
      break;
  }
  if (jumps(i.opcode)) return lenders.clear();
  pop(frames_popped(i.opcode, i.arg));
  for (int n = frames_pushed(i.opcode, i.arg); n > 0; --n) push(-1);
}

Program decode(PyCodeObject* code) {
  const Owned<> bytes = Owned<>::steal(PyCode_GetCode(code));
  const auto* units = reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(bytes.get()));
  const int size = static_cast<int>(PyBytes_GET_SIZE(bytes.get()) / 2);
  Program program;
  for (int unit = 0; unit < size;) {
    Instruction i{};
    const int start = unit;
    for (i.opcode = units[2 * unit]; i.opcode == EXTENDED_ARG; i.opcode = units[2 * ++unit])
      i.arg = (i.arg | units[2 * unit + 1]) << 8;
    i.arg |= units[2 * unit + 1];
    i.at = unit;
    i.next = unit += 1 + frames_caches(i.opcode);
    program[start] = i;
  }
  std::vector<int> targets;
  for (const auto& [start, i] : program) {
    if (!jumps(i.opcode)) continue;
    const bool back = i.opcode == JUMP_BACKWARD || i.opcode == JUMP_BACKWARD_NO_INTERRUPT;
    targets.push_back(back ? i.next - i.arg : i.next + i.arg);
  }
  ExceptionTable table(code);
  for (ExceptionTable::Entry entry; table.next(&entry);) targets.push_back(entry.target);
  std::vector<int> lenders;
  for (auto& [start, i] : program) {
    if (std::find(targets.begin(), targets.end(), start) != targets.end()) lenders.clear();
    i.lenders = lenders;
    follow(i, lenders);
  }
  return program;
}

}  // namespace

const Program& program_of(PyCodeObject* code) {
  static auto& known = *new std::map<PyCodeObject*, std::pair<Owned<>, Program>>;  // outlives the interpreter
  auto [found, is_new] = known.try_emplace(code);
  if (is_new) found->second = {Owned<>::share(reinterpret_cast<PyObject*>(code)), decode(code)};
  return found->second.second;
}

}  // namespace frames
#endif
