// Prints expressions in Python's syntax.
#include <charconv>

#include "shape/nodes.h"

namespace gramme::shape {
namespace {

/// The precedence of a text's outermost operator.
enum Rank { kOr, kAnd, kComparison, kSum, kProduct, kPower, kAtom };

struct Text {
  std::string text;
  Rank rank = kAtom;

  std::string within(Rank least) const { return rank < least ? "(" + text + ")" : text; }
};

std::string float_text(double value) {
  char text[40];
  std::string shortest(text, std::to_chars(text, text + sizeof text, value).ptr);
  return shortest.find_first_of(".e") == std::string::npos ? shortest + ".0" : shortest;
}

class Printer {
 public:
  explicit Printer(std::span<const std::string> names) : names_(names) {}

  Text print(Expr e) const {
    switch (e->kind) {
      case Kind::Constant:
        return constant(e);
      case Kind::Symbol:
        return {name(static_cast<size_t>(e->constant))};
      case Kind::Product:
        return {product(e), e->operands.size() == 1 ? kPower : kProduct};
      case Kind::Sum:
        return sum(e);
      case Kind::FloorDivide:
      case Kind::Modulo:
      case Kind::FloatMultiply:
        return infix(e, kProduct, kProduct, kPower);
      case Kind::FloatDivide:
        return quotient(e);
      case Kind::FloatAdd:
        return infix(e, kSum, kSum, kProduct);
      case Kind::FloatPower:
        return infix(e, kPower, kAtom, kAtom);
      case GRAMME_SHAPE_FLOAT_COMPARISONS:
        return infix(e, kComparison, kSum, kSum);
      case GRAMME_SHAPE_INT_COMPARISONS:
        return comparison(e);
      case Kind::And:
        return infix(e, kAnd, kComparison, kComparison);
      case Kind::Or:
        return infix(e, kOr, kComparison, kComparison);
      case Kind::Minimum:
      case Kind::Maximum:
      case GRAMME_SHAPE_ROUNDINGS:
      case Kind::ToFloat:
      case Kind::SquareRoot:
        break;
    }
    return call(e);
  }

 private:
  std::string name(size_t number) const {
    return number < names_.size() && !names_[number].empty() ? names_[number] : "s" + std::to_string(number);
  }

  static Text constant(Expr e) {
    if (e->type == Type::Bool) return {e->constant ? "True" : "False"};
    std::string text = e->type == Type::Float ? float_text(float_value(e)) : std::to_string(e->constant);
    return {text, text[0] == '-' ? kSum : kAtom};
  }

  std::string product(Expr e) const {
    std::string text;
    for (const Operand& factor : e->operands) {
      if (!text.empty()) text += "*";
      text += print(factor.of).within(kAtom);
      if (factor.times != 1) text += "**" + std::to_string(factor.times);
    }
    return text;
  }

  /// The term without its sign. A leading sign binds more tightly than %, so a % after it needs parentheses.
  std::string term(const Operand& term, bool after_sign) const {
    const int64_t times = std::abs(term.times);
    if (term.of->kind == Kind::Product) return (times == 1 ? "" : std::to_string(times) + "*") + product(term.of);
    if (times == 1) return print(term.of).within(after_sign ? kAtom : kProduct);
    return std::to_string(times) + "*" + print(term.of).within(kAtom);
  }

  /// Positive terms first, then negative ones, then the constant.
  Text sum(Expr e) const {
    std::string text;
    for (const Operand& operand : e->operands)
      if (operand.times > 0) text += (text.empty() ? "" : " + ") + term(operand, false);
    const bool starts = text.empty() && e->constant > 0;
    if (starts) text = std::to_string(e->constant);
    for (const Operand& operand : e->operands)
      if (operand.times < 0) text += (text.empty() ? "-" : " - ") + term(operand, text.empty());
    if (e->constant != 0 && !starts) text += (e->constant < 0 ? " - " : " + ") + std::to_string(std::abs(e->constant));
    return {text, kSum};
  }

  Text infix(Expr e, Rank rank, Rank first, Rank others) const {
    std::string text = print(e->operands[0].of).within(first);
    const bool tight = rank == kProduct || rank == kPower;
    const std::string sign =
        text_of(e->kind)[0] == ' ' || tight ? text_of(e->kind) : " " + std::string(text_of(e->kind)) + " ";
    for (const Operand& operand : e->operands.subspan(1)) text += sign + print(operand.of).within(others);
    return {text, rank};
  }

  /// The Int that a Float was converted from, or an equal constant; null if there is none.
  static Expr whole(Expr e) {
    if (e->kind == Kind::ToFloat) return e->operands[0].of;
    return is_constant(e) ? truncate_exactly(float_value(e)) : nullptr;
  }

  static Expr truncate_exactly(double value) {
    const bool exact = std::trunc(value) == value && std::abs(value) <= static_cast<double>(kExact);
    return exact ? shape::constant(static_cast<int64_t>(value)) : nullptr;
  }

  /// Python divides integers with `/` without a conversion.
  Text quotient(Expr e) const {
    const Expr a = e->operands[0].of, b = e->operands[1].of;
    const Expr dividend = whole(a), divisor = whole(b);
    auto print = [&](Expr x, Expr whole) { return this->print(dividend && divisor ? whole : x); };
    return {print(a, dividend).within(kProduct) + "/" + print(b, divisor).within(kPower), kProduct};
  }

  Text call(Expr e) const {
    std::string text = text_of(e->kind);
    for (const Operand& operand : e->operands) text += (text.back() == '(' ? "" : ", ") + print(operand.of).text;
    return {text + ")"};
  }

  /// Prints a <= b - 1 as a < b.
  Text comparison(Expr e) const {
    const Sides sides = sides_of(e);
    const bool one_less = e->kind == Kind::AtMost && e->constant == -1;
    const bool one_more = e->kind == Kind::AtLeast && e->constant == 1;
    if (one_less || one_more) {
      const Expr right = subtract(sides.right, shape::constant(e->constant));
      if (right && !is_constant(right))
        return {print(sides.left).within(kSum) + (one_less ? " < " : " > ") + print(right).within(kSum), kComparison};
    }
    return {print(sides.left).within(kSum) + " " + text_of(e->kind) + " " + print(sides.right).within(kSum),
            kComparison};
  }

  std::span<const std::string> names_;
};

}  // namespace

std::string print(Expr e, std::span<const std::string> names) { return Printer(names).print(e).text; }

}  // namespace gramme::shape
