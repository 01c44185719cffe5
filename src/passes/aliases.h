// Which registers share memory.
#pragma once
#include <vector>

#include "passes/assemble.h"

namespace gramme::native {

/// Groups of registers that share memory, as far as inputs and operators show.
class Aliases {
 public:
  explicit Aliases(const Assembly& assembly);
  /// True if the memory is written, passed to Python, or returned as a view. Version counters and bases in the group
  /// can then be observed.
  bool observed(Register r) const { return observed_[static_cast<size_t>(root(r))]; }
  /// The number of the register's group.
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
