// Expressions compiled to instructions on 64-bit registers, for guards, replay and native tapes.
#pragma once
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "shape/arithmetic.h"
#include "shape/expression.h"

namespace gramme::shape {

/// Index of a register. It holds a word: an Int, a Float's bits, or 0 and 1.
using Register = uint32_t;

struct Instruction {
  Operation operation;
  Register target, a, b;
};

/// False if an operation has no value or a requirement does not hold. Allocates nothing and runs no Python; threads may
/// share the instructions, each with its own registers.
bool run(std::span<const Instruction> code, int64_t* registers);

class Program {
 public:
  /// The register in which a run leaves the value, or finds it for a symbol. Common parts are computed once.
  Register add(Expr e);
  /// Adds a requirement: a run ends at the first that does not hold.
  void require(Expr e);
  /// A register that the caller fills with a number; a run ends unless that equals the Int's value.
  Register require_value(Expr e);

  /// In order: operands come before their users.
  const std::vector<Instruction>& code() const { return code_; }
  /// Initial registers for a run, with the constants filled in. Runs never write constants or symbols.
  std::vector<int64_t> registers() const;
  /// The expression whose value the register holds; null for intermediate results.
  Expr expression(Register r) const { return expressions_.at(r); }
  size_t register_count() const { return expressions_.size(); }

  // The machine for Lowering.
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
