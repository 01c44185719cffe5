// Integer expressions over symbolic sizes, the comparisons that guards check, and a few float operations between
// integers.
//
// An expression has the value that Python computes, where Python has one: integers do not overflow, floats are finite.
// Expressions are made in normal form and hash-consed, so that a*b + c and c + b*a are the same pointer. Nodes live as
// long as the process; the GIL protects their table.
//
// Null stands for what cannot be expressed: a coefficient beyond 64 bits, a node too large, types that do not fit, a
// constant divisor of zero. Every operation on null is null, so a caller checks once, at the end.
//
// Simplifying may give a value to a computation that has none (a divisor is zero), but never changes a value. The
// caller of a division guards that the divisor is not zero.
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

// Groups of kinds that most switches treat alike, written after one `case`. A kind in no group must be named in every
// switch.
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
  uint32_t size;     // number of nodes of the tree, shared ones counted each time
  uint32_t id;       // dense, in order of creation: for keys and tags, never for an order that users see
  uint64_t symbols;  // bit k: symbol k occurs; bit 63 stands for all from there on
  int64_t constant;  // meaning: see kinds.def
  std::span<const Operand> operands;
};

inline bool is_constant(Expr e) { return e->kind == Kind::Constant; }
inline bool is_constant(Expr e, int64_t value) { return is_constant(e) && e->constant == value; }
double float_value(Expr constant);
/// The node with this id.
Expr expression_of(uint32_t id);

// ---- leaves

/// Never null; but sums and products with it are null if its negative takes more than 64 bits.
Expr constant(int64_t value);
/// Null if the value is not finite.
Expr float_constant(double value);
Expr truth(bool value);
/// The capture numbers its symbols in order of creation, so that capturing a program again gives the same nodes.
Expr symbol(int64_t number, Type type = Type::Int);

// ---- Python's operators; an Int combined with a Float is converted

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

// ---- whole expressions

/// The expression with each symbol k replaced by by_symbol[k], where that exists and is not null.
Expr substitute(Expr e, std::span<const Expr> by_symbol);
/// False only if they have no symbol in common; symbols from 63 on count as one.
inline bool may_share_symbols(Expr a, Expr b) { return a->symbols & b->symbols; }
/// A Python expression that may use the module `math`. Symbol k is printed as names[k], or as "s<k>" without a name.
std::string print(Expr e, std::span<const std::string> names = {});

}  // namespace gramme::shape
