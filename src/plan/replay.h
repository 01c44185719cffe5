// The flat replay program and its interpreter. Registers: [reads of the guard plan | graph outputs | constants | made
// here].
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

/// What an operation cannot do without.
enum Takes : uint8_t {
  kNothing = 0,
  kA = 1 << 0,
  kB = 1 << 1,
  kC = 1 << 2,
  kObject = 1 << 3,
  kAOrObject = 1 << 4,
  kPairs = 1 << 5,  // its operands come in pairs
  kHoles = 1 << 6,  // one of its operands may be kNull
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
  int registers = 0;  // in all

  /// Runs the program. `registers` holds reads, outputs and constants from the start, all put there by the caller;
  /// owned references to what is made are added. False with a Python error set if a step failed: a bug or no memory,
  /// since no step runs user code.
  bool run(PyObject** registers) const { return run(registers, ops.size()); }
  /// Only its first operations.
  bool run(PyObject** registers, size_t count) const;
};

const char* kind_name(ReplayKind kind);
/// Says what an operation lacks of what its row says that it takes and makes; null if it has all. Null, or what is
/// missing.
const char* what_is_missing(const ReplayOp& op, const std::vector<Register>& operands);

}  // namespace gramme::plan
