// Float operations between two integers. They are not reordered, since floats round.
#include "shape/nodes.h"

namespace gramme::shape {
namespace {

bool commutes(Kind kind) {
  return kind == Kind::FloatAdd || kind == Kind::FloatMultiply || kind == Kind::FloatEqual ||
         kind == Kind::FloatNotEqual;
}

Expr folded(Kind kind, Expr a, Expr b) {
  int64_t word = 0;
  if (!apply(operation_of(kind), a->constant, b ? b->constant : 0, word)) return nullptr;
  switch (type_of(kind)) {
    case Type::Int:
      return constant(word);
    case Type::Bool:
      return truth(word);
    case Type::Float:
      return float_constant(as_float(word));
    case Type::Any:
      break;  // leaves: computed of nothing
  }
  return nullptr;
}

/// Rounds to an Int: an Int stays, a converted Int loses its conversion, any other Float becomes the operation's node.
Expr whole(Kind kind, Expr a) {
  if (!a || a->type == Type::Int) return a;
  return a->kind == Kind::ToFloat ? a->operands[0].of : float_operation(kind, a);
}

}  // namespace

Expr lifted(Expr e) {
  if (!e || e->type == Type::Bool) return nullptr;
  return e->type == Type::Int ? to_float(e) : e;
}

Expr float_operation(Kind kind, Expr a, Expr b) {
  const bool two = takes_two(operation_of(kind));
  if (!a || (two && !b) || a->type != Type::Float || (two && b->type != Type::Float)) return nullptr;
  if (is_constant(a) && (!two || is_constant(b))) return folded(kind, a, b);
  if (commutes(kind) && compare(b, a) < 0) std::swap(a, b);
  const Operand operands[] = {{a}, {b}};
  return intern(kind, type_of(kind), 0, std::span(operands, two ? 2 : 1));
}

Expr to_float(Expr a) {
  if (!a || a->type != Type::Int) return a && a->type == Type::Float ? a : nullptr;
  if (is_constant(a)) return folded(Kind::ToFloat, a, nullptr);
  const Operand operands[] = {{a}};
  return intern(Kind::ToFloat, Type::Float, 0, operands);
}

Expr true_divide(Expr a, Expr b) {
  a = lifted(a);
  b = lifted(b);
  return b && is_constant(b) && float_value(b) == 0 ? nullptr : float_operation(Kind::FloatDivide, a, b);
}

Expr square_root(Expr a) { return float_operation(Kind::SquareRoot, lifted(a)); }
Expr truncate(Expr a) { return whole(Kind::Truncate, a); }
Expr floor(Expr a) { return whole(Kind::Floor, a); }
Expr ceil(Expr a) { return whole(Kind::Ceil, a); }
Expr round(Expr a) { return whole(Kind::Round, a); }

}  // namespace gramme::shape
