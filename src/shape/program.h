// Expressions in flat form: instructions on registers of 64 bits, for guards, operands of replay and native tapes.
#pragma once
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "shape/arithmetic.h"
#include "shape/expression.h"

namespace gramme::shape {

/// A word: an Int, a Float's bits, or 0 and 1.
using Register = uint32_t;

struct Instruction {
  Operation operation;
  Register target, a, b;
};

/// False if something has no value, or what is required does not hold. Allocates nothing, runs no Python; several
/// threads may run the same instructions, each on registers of its own.
bool run(std::span<const Instruction> code, int64_t* registers);

class Program {
 public:
  /// Where a run leaves the value; of a symbol, where it finds it. What is common to several is computed once.
  Register add(Expr e);
  /// A run ends at the first that does not hold.
  void require(Expr e);
  /// Where a run finds a number, and ends unless it is the value of the Int.
  Register require_value(Expr e);

  /// Operands before what is computed of them.
  const std::vector<Instruction>& code() const { return code_; }
  /// For a run, with the constants in their places. Runs never write constants and symbols.
  std::vector<int64_t> registers() const;
  /// What the register holds; null if it is only part of something.
  Expr expression(Register r) const { return expressions_.at(r); }
  size_t register_count() const { return expressions_.size(); }

  // For lowering.
  using Value = Register;
  const Register* known(Expr e) const;
  Register keep(Expr e, Register r);
  Register leaf(Expr e);
  Register compute(Operation operation, Register a, Register b);

 private:
  Register new_register();

  std::vector<Instruction> code_;
  std::vector<Expr> expressions_;  // by register
  std::unordered_map<Expr, Register> known_;
};

}  // namespace gramme::shape
