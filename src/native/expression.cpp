#include "native/expression.h"

#include <algorithm>
#include <ostream>

namespace gramme::native {
namespace {

/// Of a positive b, rounded as Python does.
int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b < 0); }
int64_t floor_modulo(int64_t a, int64_t b) { return a % b + (a % b < 0 ? b : 0); }

const char* sign_of(Expression::Kind kind) {
  switch (kind) {
    case Expression::Add:
      return "+";
    case Expression::Subtract:
      return "-";
    case Expression::Multiply:
      return "*";
    case Expression::FloorDivide:
      return "//";
    default:
      return "%";
  }
}

/// How tightly its sign binds.
int rank_of(const Expression& expression) {
  switch (expression.kind) {
    case Expression::Add:
    case Expression::Subtract:
      return 1;
    case Expression::Multiply:
    case Expression::FloorDivide:
    case Expression::Modulo:
      return 2;
    default:
      return 3;
  }
}

void print_operand(std::ostream& out, const std::vector<Expression>& numbers, NumberId number, bool in_brackets) {
  if (in_brackets) out << "(";
  print_number(out, numbers, number);
  if (in_brackets) out << ")";
}

}  // namespace

std::optional<int64_t> evaluate(const Expression& expression, const int64_t* numbers) {
  const int64_t a = numbers[expression.a], b = takes_two(expression) ? numbers[expression.b] : 0;
  int64_t result = 0;
  bool fits = true;
  switch (expression.kind) {
    case Expression::Negate:
      fits = !__builtin_sub_overflow(int64_t{0}, a, &result);
      break;
    case Expression::Add:
      fits = !__builtin_add_overflow(a, b, &result);
      break;
    case Expression::Subtract:
      fits = !__builtin_sub_overflow(a, b, &result);
      break;
    case Expression::Multiply:
      fits = !__builtin_mul_overflow(a, b, &result);
      break;
    case Expression::FloorDivide:
      result = floor_divide(a, b);
      break;
    case Expression::Modulo:
      result = floor_modulo(a, b);
      break;
    case Expression::Minimum:
      result = std::min(a, b);
      break;
    case Expression::Maximum:
      result = std::max(a, b);
      break;
    default:
      break;
  }
  return fits ? std::optional(result) : std::nullopt;
}

void print_number(std::ostream& out, const std::vector<Expression>& numbers, NumberId number) {
  const Expression& expression = numbers.at(static_cast<size_t>(number));
  if (expression.kind == Expression::Constant) {
    out << expression.constant;
  } else if (!is_arithmetic(expression)) {
    out << "s" << number;
  } else if (expression.kind == Expression::Minimum || expression.kind == Expression::Maximum) {
    out << (expression.kind == Expression::Minimum ? "min(" : "max(");
    print_number(out, numbers, expression.a);
    out << ", ";
    print_number(out, numbers, expression.b);
    out << ")";
  } else {
    auto rank = [&](NumberId operand) { return rank_of(numbers.at(static_cast<size_t>(operand))); };
    if (takes_two(expression)) print_operand(out, numbers, expression.a, rank(expression.a) < rank_of(expression));
    out << (takes_two(expression) ? sign_of(expression.kind) : "-");
    const NumberId last = takes_two(expression) ? expression.b : expression.a;
    print_operand(out, numbers, last, rank(last) <= rank_of(expression) && rank(last) < 3);
  }
}

}  // namespace gramme::native
