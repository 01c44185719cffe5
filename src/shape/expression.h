// Whole numbers that sizes are computed by, the comparisons of them that guards are, and a few floats on the way.
//
// An expression has the value that Python gives the same computation, wherever that has one: whole numbers do not
// overflow, floats are finite. It is brought into a normal form as it is made, and equal forms are one node, so that
// a*b + c and c + b*a are the same pointer. Nodes live as long as the process; the GIL keeps their table.
//
// What cannot be expressed is null: a coefficient beyond 64 bits, a node too large, types that do not go together, a
// constant divisor of zero. Whatever is made of null is null, so that a whole computation is asked about once.
//
// A computation that has no value (a divisor is zero) may become an expression that has one, never another one: who
// divides sees to it that the divisor is not zero.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gramme::shape {

enum class Type : uint8_t { Int, Float, Bool, Any };

enum class Kind : uint8_t {
#define KIND(name, ...) name,
#include "shape/kinds.def"
#undef KIND
};

// Kinds that most switches treat alike, after one `case`. A kind that is in none of the groups must be named wherever
// kinds are.
#define GRAMME_SHAPE_LEAVES Kind::Constant : case Kind::Symbol
#define GRAMME_SHAPE_ROUNDINGS       \
  Kind::Truncate : case Kind::Floor: \
  case Kind::Ceil:                   \
  case Kind::Round
#define GRAMME_SHAPE_INTS                 \
  Kind::Product : case Kind::FloorDivide: \
  case Kind::Modulo:                      \
  case Kind::Minimum:                     \
  case Kind::Maximum:                     \
  case Kind::Sum:                         \
  case GRAMME_SHAPE_ROUNDINGS
#define GRAMME_SHAPE_FLOATS            \
  Kind::ToFloat : case Kind::FloatAdd: \
  case Kind::FloatMultiply:            \
  case Kind::FloatDivide:              \
  case Kind::FloatPower:               \
  case Kind::SquareRoot
#define GRAMME_SHAPE_INT_COMPARISONS \
  Kind::AtMost : case Kind::AtLeast: \
  case Kind::Equal:                  \
  case Kind::NotEqual
#define GRAMME_SHAPE_FLOAT_COMPARISONS      \
  Kind::FloatLess : case Kind::FloatAtMost: \
  case Kind::FloatEqual:                    \
  case Kind::FloatNotEqual
#define GRAMME_SHAPE_CONNECTIVES Kind::And : case Kind::Or

struct Expression;
using Expr = const Expression*;

struct Operand {
  Expr of;
  int64_t times = 1;  // in a sum its coefficient, in a product its exponent
};

struct Expression {
  Kind kind;
  Type type;
  uint32_t size;     // nodes, as if nothing were shared
  uint32_t id;       // dense, in the order of making: for keys and tags, never for an order that shows
  uint64_t symbols;  // bit k: symbol k occurs; bit 63 stands for all from there on
  int64_t constant;  // kinds.def says of what
  std::span<const Operand> operands;
};

inline bool is_constant(Expr e) { return e->kind == Kind::Constant; }
inline bool is_constant(Expr e, int64_t value) { return is_constant(e) && e->constant == value; }
double float_value(Expr constant);
/// The node with that id.
Expr expression_of(uint32_t id);

// ---- leaves

/// Never null, but takes part in no sum or product if its opposite takes more than 64 bits.
Expr constant(int64_t value);
/// Null if it is not finite.
Expr float_constant(double value);
Expr truth(bool value);
/// Numbered by the capture in the order of making, so that a program captured again gives the same nodes.
Expr symbol(int64_t number, Type type = Type::Int);

// ---- Python's operators; an Int that meets a Float is converted

Expr add(Expr a, Expr b);
Expr subtract(Expr a, Expr b);
Expr negate(Expr a);
Expr multiply(Expr a, Expr b);
Expr floor_divide(Expr a, Expr b);
Expr modulo(Expr a, Expr b);
Expr power(Expr a, Expr b);
Expr true_divide(Expr a, Expr b);
Expr minimum(Expr a, Expr b);
Expr maximum(Expr a, Expr b);

Expr equal(Expr a, Expr b);
Expr not_equal(Expr a, Expr b);
Expr less(Expr a, Expr b);
Expr at_most(Expr a, Expr b);
inline Expr greater(Expr a, Expr b) { return less(b, a); }
inline Expr at_least(Expr a, Expr b) { return at_most(b, a); }
Expr both(Expr a, Expr b);    // and
Expr either(Expr a, Expr b);  // or
Expr negation(Expr a);        // not

// ---- Python's functions

Expr to_float(Expr a);
Expr truncate(Expr a);  // int() of a float
Expr floor(Expr a);
Expr ceil(Expr a);
Expr round(Expr a);
Expr square_root(Expr a);

// ---- the whole

/// With `by_symbol[k]`, where there is one and it is not null, for symbol k.
Expr substitute(Expr e, std::span<const Expr> by_symbol);
/// True if they may have a symbol in common. May say so wrongly of those from 63 on.
inline bool may_share_symbols(Expr a, Expr b) { return a->symbols & b->symbols; }
/// As Python reads it, with `math` for its module. Symbol k is names[k], or "s0" without a name.
std::string print(Expr e, std::span<const std::string> names = {});

}  // namespace gramme::shape
