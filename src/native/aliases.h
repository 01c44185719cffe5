// Which registers share memory.
#pragma once
#include <vector>

#include "native/assemble.h"

namespace gramme::native {

/// Groups of registers that share memory with one another, as far as inputs and operators show.
class Aliases {
 public:
  explicit Aliases(const Assembly& assembly);
  /// True if the memory is written, handed to Python, or returned as a view of something. Then someone may ask for
  /// version counters or bases in its group.
  bool observed(Register r) const { return observed_[static_cast<size_t>(root(r))]; }
  /// A number for all that share memory with it.
  Register group(Register r) const { return root(r); }

 private:
  Register root(Register r) const;
  void join(Register a, Register b) { group_[static_cast<size_t>(root(a))] = root(b); }
  void join_inputs(const Assembly& assembly);
  void join_results(const Instruction& instruction, const Recorder& recorder);
  void mark(Register r) { observed_[static_cast<size_t>(root(r))] = true; }
  void mark_written(const Instruction& instruction, const std::vector<bool>& leaves);

  std::vector<Register> group_;
  std::vector<bool> is_view_, observed_;
};

}  // namespace gramme::native
