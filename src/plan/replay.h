// The flat replay program and its interpreter. Registers hold, in this order: reads of the guard plan, graph outputs,
// constants, objects made here.
#pragma once
#include <cstdint>
#include <vector>

#include "base/ref.h"

namespace gramme::plan {

using Register = int32_t;
constexpr Register kNull = -1;  // no object
constexpr Register kKeep = -2;  // leave as it is

enum class ReplayKind : uint8_t {
#define REPLAY(name, ...) name,
#include "plan/replay.def"
#undef REPLAY
};

/// Operands that an operation requires.
enum Takes : uint8_t {
  kNothing = 0,
  kA = 1 << 0,
  kB = 1 << 1,
  kC = 1 << 2,
  kObject = 1 << 3,
  kAOrObject = 1 << 4,
  kPairs = 1 << 5,  // the operand list consists of pairs
  kHoles = 1 << 6,  // items of the operand list may be kNull
};

struct ReplayOp {
  ReplayKind kind;
  Register dst = kNull, a = kNull, b = kNull, c = kNull;
  int32_t first = 0, count = 0;  // operand list: Replay::operands[first, first + count)
  int64_t number = 0;
  Owned<> object;  // k
};

struct Replay {
  std::vector<ReplayOp> ops;
  std::vector<Register> operands;
  std::vector<Owned<>> constants;  // registers from `constant_base`
  int constant_base = 0;
  int registers = 0;  // total number

  /// Runs the program. The caller puts reads, outputs and constants into `registers`; owned references to new objects
  /// are added. False with a Python error set if a step failed: a bug or no memory, since no step runs user code.
  bool run(PyObject** registers) const { return run(registers, ops.size()); }
  /// Runs only the first `count` operations.
  bool run(PyObject** registers, size_t count) const;
};

const char* kind_name(ReplayKind kind);
/// Names what an operation lacks according to its row in replay.def; null if it is complete.
const char* what_is_missing(const ReplayOp& op, const std::vector<Register>& operands);

}  // namespace gramme::plan
