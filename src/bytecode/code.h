// A code object decoded once: instructions with their operands, jump targets, exception handlers and lines.
#pragma once
#include <Python.h>

#include <cstdint>
#include <vector>

namespace gramme::bytecode {

/// Dense numbering of our own; rows of opcodes.def in order, the same for every CPython version.
enum class Op : uint8_t {
#define OP(name, ...) name,
#include "bytecode/opcodes.def"
#undef OP
};

struct Instruction {
  Op op;
  int32_t arg;     // with EXTENDED_ARG folded in
  int32_t offset;  // code unit where it starts: the first EXTENDED_ARG if there is one; the only place to resume at
  int32_t at;      // code unit of the instruction itself: where its frame stands while it runs
  int32_t next;    // code unit after its inline caches
  int32_t target;  // code unit of a jump's destination, or -1
  bool resumable;  // the op's kResumable, and not between KW_NAMES and its CALL
  bool enterable;  // the op's kEnterable
};

struct Handler {
  int32_t target;  // code unit
  int32_t depth;   // stack depth to pop to
  bool lasti;      // push the index of the raising instruction first
};

class Code {
 public:
  explicit Code(PyCodeObject* code);
  /// All instructions in order, EXTENDED_ARG and CACHE folded away.
  const std::vector<Instruction>& instructions() const { return instructions_; }
  /// Index into instructions() of the one that starts at (or whose EXTENDED_ARG starts at) this code unit; -1 inside
  /// one.
  int index_of(int unit) const { return index_of_[unit]; }
  /// The handler that covers code unit `at`, or null.
  const Handler* handler(int at) const;
  int line(int unit) const;
  int max_stack() const;
  PyCodeObject* object() const { return code_; }

 private:
  struct Range {
    int32_t start, end;
    Handler handler;
  };
  PyCodeObject* code_;  // borrowed: the cache that owns this holds the code object
  std::vector<Instruction> instructions_;
  std::vector<int32_t> index_of_;
  std::vector<Range> handlers_;
  mutable std::vector<int> lines_;  // by code unit, once they are asked for often
  mutable int line_requests_ = 0;
};

/// The decoded form; made at the first request, kept with the code object for the life of the process.
const Code& decode(PyCodeObject* code);

/// What an instruction's argument means.
enum class Operand : uint8_t {
  None,
  Raw,           // a number of its own
  Const,         // index into co_consts
  Name,          // index into co_names
  GlobalName,    // index into co_names << 1, low bit: push NULL too
  Local,         // index into localsplus
  Count,         // how many items
  Depth,         // item of the value stack, 1 is the top
  Flags,         // bits
  Compare,       // Py_LT … Py_GE
  BinaryOp,      // NB_ADD …
  Invert,        // 1: negate
  Unpack,        // items before the list | items behind << 8
  JumpForward,   // code units from `next`
  JumpBackward,  // code units back from `next`
};

enum Property : uint32_t {
  kNone = 0,
  kResumable = 1 << 0,   // a segment may start here
  kCanBreak = 1 << 1,    // cpython::step carries it out for real; without it the frame is handed over here
  kReadsUser = 1 << 2,   // may read user objects through descriptors or methods
  kWritesUser = 1 << 3,  // may write user objects
  kJump = 1 << 4,
  kConditional = 1 << 5,
  kEndsBlock = 1 << 6,  // no fall through
  kEnterable = 1 << 7,  // carried out anew with the same operands it calls the same Python function first, and has done
                        // nothing that shows until then
  kOrdinary = kResumable | kCanBreak,
};
const char* name(Op op);
uint32_t properties(Op op);
Operand operand(Op op);
/// The table's line on what it does.
const char* text(Op op);
/// Net stack effect of the instruction; for conditional jumps of the fall-through or the taken branch.
int stack_effect(Op op, int arg, bool jumped);

}  // namespace gramme::bytecode
