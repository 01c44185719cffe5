// The instruction for elementwise operators that are computed together.
#pragma once
#include "tape/tape.h"

namespace gramme::native {

/// The place of a kernel's operand or result: an offset in bytes from a base, which is a literal, the scratch memory or
/// a tensor's first element.
struct Spot {
  int32_t base = 0;
  int64_t offset = 0;
  bool steps = true;  // false: the same element each time
};

/// One operator, or a part of it, on adjacent elements.
struct Kernel {
  void (*run)(const Kernel& kernel, char* const* bases) = nullptr;
  Spot out, in[3];
  int32_t count = 0;
  std::vector<int32_t> index;  // moves: source index of each element; empty: adjacent
  alignas(16) char literal[2][16] = {};
};

struct Fused final : Bound {
  struct Output {
    Register target;
    c10::DimVector sizes, strides;
    c10::ScalarType dtype;
  };
  struct Input {
    Register source;
    int64_t reach;  // distance from the first to the last element
  };
  std::vector<Instruction> parts;  // the original instructions, run one by one under a profiler
  std::vector<Output> outputs;     // bases from 1 on, then the inputs
  std::vector<Input> inputs;
  std::vector<Register> read;  // registers from outside that the parts read
  std::vector<size_t> views;   // parts that are views of inputs or outputs, for others
  std::vector<Kernel> kernels;
  int64_t scratch = 0;  // bytes
};

inline const Fused& fused_of(const Instruction& instruction) { return static_cast<const Fused&>(*instruction.bound); }
inline Fused& fused_of(Instruction& instruction) { return static_cast<Fused&>(*instruction.bound); }

}  // namespace gramme::native
