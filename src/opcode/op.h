// The vocabulary of instructions, the same for every version of CPython. <opcode.h> defines some of its names as
// macros: no file includes both.
#pragma once
#include <cstdint>

namespace gramme::opcode {

/// Rows of opcodes.def in order.
enum class Op : uint8_t {
#define OP(name, ...) name,
#include "opcode/opcodes.def"
#undef OP
};

/// What an instruction's argument means.
enum class Operand : uint8_t {
  None,
  Raw,         // a number of its own
  Value,       // the number itself
  Const,       // index into co_consts
  Common,      // index of a constant that all code shares: cpython::common_constant()
  Special,     // index of a special method's name: cpython::special_name()
  Name,        // index into co_names
  GlobalName,  // index into co_names << 1, low bit: push NULL too
  SuperName,   // index into co_names << 1, low bit: super() has its arguments
  Local,       // index into localsplus
  Count,       // how many items
  Depth,       // item of the value stack, 1 is the top
  Flags,       // bits
  Compare,     // Py_LT … Py_GE
  BinaryOp,    // NB_ADD …
  Invert,      // 1: negate
  Unpack,      // items before the list | items behind << 8
  Jump,        // to the instruction's target
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
  kTruth = 1 << 8,      // asks for the truth of the top item, whatever that is
  kOrdinary = kResumable | kCanBreak,
};

/// What opcodes.def says of a row.
struct Row {
  const char* name;
  Operand operand;
  uint32_t properties;
  const char* text;
};
inline constexpr Row kRows[] = {
#define OP(name, operand, pops, pushes, properties, text) {#name, Operand::operand, properties, text},
#include "opcode/opcodes.def"
#undef OP
};
inline constexpr int kCount = sizeof(kRows) / sizeof(Row);
static_assert(kCount < 256);

constexpr const Row& row(Op op) { return kRows[static_cast<int>(op)]; }
constexpr const char* name(Op op) { return row(op).name; }
constexpr uint32_t properties(Op op) { return row(op).properties; }
constexpr Operand operand(Op op) { return row(op).operand; }
/// The table's line on what it does.
constexpr const char* text(Op op) { return row(op).text; }

/// Net stack effect of the instruction; for conditional jumps of the fall-through or the taken branch.
constexpr int stack_effect(Op op, int arg, bool jumped) {
  static_cast<void>(arg);
  static_cast<void>(jumped);
  switch (op) {
#define OP(name, operand, pops, pushes, properties, text) \
  case Op::name:                                          \
    return (pushes) - (pops);
#include "opcode/opcodes.def"
#undef OP
  }
  return 0;
}

/// How many items of the stack it takes.
constexpr int pops(Op op, int arg) {
  static_cast<void>(arg);
  switch (op) {
#define OP(name, operand, pops, pushes, properties, text) \
  case Op::name:                                          \
    return pops;
#include "opcode/opcodes.def"
#undef OP
  }
  return 0;
}

}  // namespace gramme::opcode
