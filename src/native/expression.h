// Whole numbers that a call computes: sizes that the program was given as inputs, and arithmetic on them.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <vector>

namespace gramme::native {

/// A number of a tape, in the order of their making; operands come before what is made of them.
using NumberId = int32_t;

struct Expression {
  enum Kind : uint8_t {
    Input,     // of the program
    Constant,  // constant
    Size,      // of a tensor, in dimension `constant`, when the tape gets there
    Negate,    // a
    Add,       // a and b, as for all below
    Subtract,
    Multiply,
    FloorDivide,  // b is a positive constant
    Modulo,       // b is a positive constant
    Minimum,
    Maximum,
  };
  Kind kind = Constant;
  NumberId a = -1, b = -1;
  int64_t constant = 0;
};

inline bool is_arithmetic(const Expression& expression) { return expression.kind >= Expression::Negate; }
inline bool takes_two(const Expression& expression) { return expression.kind >= Expression::Add; }
/// Of an arithmetic expression, as Python computes it; none if it takes more than 64 bits.
std::optional<int64_t> evaluate(const Expression& expression, const int64_t* numbers);
/// "s0*2"; inputs and sizes are printed by their names, s0 and s4.
void print_number(std::ostream& out, const std::vector<Expression>& numbers, NumberId number);

}  // namespace gramme::native
