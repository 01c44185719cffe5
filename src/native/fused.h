// Elementwise operators on small tensors, one after the other, as one instruction: their results lie in scratch memory,
// but for those that somebody reads afterwards. A kernel's call costs more than such operators compute.
//
// Only what has the same bits whoever computes it is in the list: what IEEE 754 says of one operation, and whole
// numbers.
#pragma once
#include "native/tape.h"

namespace gramme::native {

class Aliases;
class Recorder;

/// Where a kernel finds an operand, or leaves its result: bytes from a base, which is a literal, the scratch memory or
/// a tensor's first element.
struct Spot {
  int32_t base = 0;
  int64_t offset = 0;
  bool steps = true;  // false: one element for all
};

/// One operator, or a part of it, on elements that lie side by side.
struct Kernel {
  void (*run)(const Kernel& kernel, char* const* bases) = nullptr;
  Spot out, in[3];
  int32_t count = 0;
  std::vector<int32_t> index;  // moves: for each element the one of the operand; none: side by side
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
    int64_t reach;  // elements from its first to its last one
  };
  std::vector<Instruction> parts;  // what it stands for: run one by one where somebody looks on
  std::vector<Output> outputs;     // bases from 1 on, then the inputs
  std::vector<Input> inputs;
  std::vector<Register> read;  // from outside, by the parts
  std::vector<size_t> views;   // of the parts: made of inputs or outputs for others
  std::vector<Kernel> kernels;
  int64_t scratch = 0;  // bytes
};

const Fused& fused_of(const Instruction& instruction);
Fused& fused_of(Instruction& instruction);

/// Neighbours that can be computed together are. `returned`: by register, is it in the output?
std::vector<Instruction> with_fused(std::vector<Instruction> instructions, const Recorder& recorder,
                                    const std::vector<bool>& returned);

}  // namespace gramme::native
