// Loads numbers into the registers of the compiled expression program, runs its conditions cheapest first, and words
// failures.
#include "plan/shape_check.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "aten/spec.h"
#include "base/error.h"
#include "source/constant.h"

namespace gramme::plan {
namespace {

using shape::Expr;
using SourceKind = source::Kind;

/// Loads a number; false if an int has more than 64 bits.
[[gnu::always_inline]] inline bool read(const Number& number, PyObject* const* registers, int64_t& word) {
  PyObject* of = registers[number.of];
  int overflow = 0;
  if (number.kind == SourceKind::SizeOf)
    word = aten::size_at(of, number.dimension);
  else if (number.kind == SourceKind::StrideOf)
    word = aten::stride_at(of, number.dimension);
  else if (number.kind == SourceKind::OffsetOf)
    word = aten::offset_of(of);
  else if (!source::is_number(number.kind))
    word = PyLong_AsLongLongAndOverflow(of, &overflow);
  else
    return false;
  return overflow == 0;
}

/// Estimated cost of an expression; a division counts as several instructions.
uint32_t cost(Expr e) {
  const bool divides = e->kind == shape::Kind::FloorDivide || e->kind == shape::Kind::Modulo;
  return std::accumulate(e->operands.begin(), e->operands.end(), divides ? 4u : 1u,
                         [](uint32_t sum, const shape::Operand& operand) { return sum + cost(operand.of); });
}

/// The conditions, cheapest first.
std::vector<Expr> in_order(const std::vector<guards::ShapeGuards::Condition>& conditions) {
  std::vector<std::pair<uint32_t, Expr>> by_cost;
  for (const auto& condition : conditions) by_cost.emplace_back(cost(condition.holds), condition.holds);
  std::stable_sort(by_cost.begin(), by_cost.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Expr> ordered;
  for (const auto& [cost, condition] : by_cost) ordered.push_back(condition);
  return ordered;
}

/// Calls `visit(symbol number, register)` for symbols that the program reads.
template <class Visit>
void each_symbol(const shape::Program& program, size_t known, Visit visit) {
  for (shape::Register r = 0; r < program.register_count(); ++r) {
    const Expr e = program.expression(r);
    if (!e || e->kind != shape::Kind::Symbol) continue;
    const auto number = static_cast<size_t>(e->constant);
    if (e->type != shape::Type::Int || number >= known) GRAMME_BUG("a symbol without a source: " + shape::print(e));
    visit(number, r);
  }
}

PyObject* object_of(int64_t word, shape::Type type) {
  if (type == shape::Type::Bool) return PyBool_FromLong(word != 0);
  return type == shape::Type::Float ? PyFloat_FromDouble(shape::as_float(word)) : PyLong_FromLongLong(word);
}

/// Explains an expression with its values at one call, for messages.
class Explanation {
 public:
  Explanation(const Program& program, const std::vector<std::string>& names, PyObject* const* registers, Expr e)
      : text_(shape::print(e, names)) {
    shape::Program code;
    const shape::Register result = code.add(e);
    std::vector<int64_t> words = code.registers();
    bool fits = true;
    each_symbol(code, names.size(), [&](size_t k, shape::Register r) {
      const bool read = plan::read(program.symbols[k], registers, words[r]);
      const std::string now = read ? std::to_string(words[r]) : source::describe(registers[program.symbols[k].of]);
      values_ += (values_.empty() ? ": " : ", ") + names[k] + " is " + now;
      fits &= read;
    });
    if (fits && shape::run(code.code(), words.data())) value_ = words[result];
  }

  std::optional<int64_t> value() const { return value_; }
  /// "n*m has no value: n is 5, m is 7"
  std::string say(const std::string& what) const { return text_ + what + values_; }

 private:
  std::string text_, values_;
  std::optional<int64_t> value_;
};

std::string explain_property(const std::string& name, int64_t now, const Explanation& expected) {
  if (!expected.value()) return expected.say(" has no value");
  if (*expected.value() == now) return {};
  return name + " is " + std::to_string(now) + ", not " + std::to_string(*expected.value()) + " = " + expected.say("");
}

}  // namespace

ShapeCheck::ShapeCheck(const guards::ShapeGuards& shapes, const Program& program) : program_(program) {
  shape::Program lowered;
  for (size_t i = 0; i < program.properties.size(); ++i)
    leaves_.push_back({program.properties[i], lowered.require_value(shapes.properties[i].value)});
  for (Expr condition : in_order(shapes.conditions)) lowered.require(condition);
  for (Expr number : shapes.numbers) results_.push_back({lowered.add(number), number->type});
  each_symbol(lowered, program.symbols.size(),
              [&](size_t k, shape::Register r) { leaves_.push_back({program.symbols[k], r}); });
  code_ = lowered.code();
  held_ = tried_ = lowered.registers();
}

[[gnu::hot]] bool ShapeCheck::holds(PyObject* const* registers) {
  int64_t changed = 0;
  for (const Leaf& leaf : leaves_) {
    int64_t& word = tried_[leaf.target];
    if (!read(leaf.number, registers, word)) return false;
    changed |= word ^ held_[leaf.target];
  }
  if (!changed && has_held_) return true;
  if (!shape::run(code_, tried_.data())) return false;
  held_.swap(tried_);
  return has_held_ = true;
}

[[gnu::hot]] bool ShapeCheck::give(PyObject** numbers) const {
  for (size_t i = 0; i < results_.size(); ++i) {
    numbers[i] = object_of(held_[results_[i].from], results_[i].type);
    if (numbers[i]) [[likely]]
      continue;
    PyErr_Clear();
    while (i > 0) Owned<>::steal(numbers[--i]);
    return false;
  }
  return true;
}

Mismatch ShapeCheck::explain(const guards::ShapeGuards& shapes, PyObject* const* registers) const {
  const std::vector<std::string> names = shapes.names();
  auto at_this_call = [&](Expr e) { return Explanation(program_, names, registers, e); };
  auto differs = [](std::string text, std::string subject = {}) {
    return Mismatch{Mismatched::Size, std::move(subject), std::move(text)};
  };
  for (size_t i = 0; i < shapes.properties.size(); ++i) {
    const auto& [source, value] = shapes.properties[i];
    const std::string name = source->print();
    int64_t now = 0;
    if (!read(program_.properties[i], registers, now)) return differs(name + " is beyond 64 bits", name);
    std::string why = explain_property(name, now, at_this_call(value));
    if (!why.empty()) return differs(std::move(why), name);
  }
  for (const auto& condition : shapes.conditions) {
    const Explanation now = at_this_call(condition.holds);
    if (now.value() != 1)
      return differs(now.say(condition.remark() + (now.value() ? " does not hold" : " has no value")));
  }
  for (Expr number : shapes.numbers)
    if (const Explanation now = at_this_call(number); !now.value()) return differs(now.say(" has no value"));
  return {};
}

}  // namespace gramme::plan
