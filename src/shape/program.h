// Expressions in flat form: instructions on registers of 64 bits, for guards, operands of replay and native tapes.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shape/arithmetic.h"
#include "shape/expression.h"

namespace gramme::shape {

/// A word: an Int, a Float's bits, or 0 and 1.
using Register = uint32_t;

class Program {
 public:
  struct Instruction {
    Operation operation;
    Register target, a, b;
  };

  /// Where a run leaves the value; of a symbol, where it finds it. What is common to several is computed once.
  Register add(Expr e);
  /// A run ends at the first that does not hold.
  void require(Expr e);

  size_t size() const { return code_.size(); }
  const std::vector<Instruction>& code() const { return code_; }
  /// For a run, with the constants in their places. Runs never write constants and symbols.
  std::vector<int64_t> registers() const;
  size_t register_count() const { return count_; }
  /// Is the register's value computed, rather than a constant's or a symbol's?
  bool computes(Register r) const { return computed_[r]; }

  /// False if something has no value, or what is required does not hold. Allocates nothing, runs no Python; several
  /// threads may run it, each with registers of its own.
  bool run(int64_t* registers) const { return run(registers, 0, code_.size()); }
  /// The instructions from one on up to another.
  bool run(int64_t* registers, size_t from, size_t to) const;

  // For lowering.
  using Value = Register;
  const Register* known(Expr e) const;
  Register keep(Expr e, Register r) { return known_[e] = r; }
  Register leaf(Expr e);
  Register compute(Operation operation, Register a, Register b);

 private:
  Register new_register(bool computed);

  std::vector<Instruction> code_;
  std::vector<std::pair<Register, int64_t>> constants_;
  std::unordered_map<Expr, Register> known_;
  std::vector<bool> computed_;
  Register count_ = 0;
};

}  // namespace gramme::shape
