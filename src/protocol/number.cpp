// Arithmetic in three forms: expressions over symbols, graph nodes with bounds (only where the operator cannot raise),
// and guards on operands that make it safe.
#include "protocol/number.h"

#include <cmath>

#include "base/imported.h"
#include "base/once.h"
#include "protocol/data_numbers.h"
#include "protocol/operator_table.h"
#include "protocol/special.h"
#include "source/constant.h"
#include "torch/names.h"

namespace gramme::protocol {

using namespace value;
using meta::Interval;
using shape::Expr;

namespace {

bool is_numeric(Value* seen) {
  return seen->kind == Kind::Number || is_int(seen) || is_constant_of(seen, &PyFloat_Type);
}

PyTypeObject* numeric_type(Value* seen) {
  auto* number = as<Number>(seen);
  return number ? number->type : Py_TYPE(seen->object);
}

bool is_zero(Value* seen) { return seen->kind == Kind::Constant && PyObject_Not(seen->object) == 1; }
bool is_negative(Value* seen) {
  Owned<> zero = take(PyLong_FromLong(0));
  return check(PyObject_RichCompareBool(seen->object, zero.get(), Py_LT)) == 1;
}

// ---- numbers over the symbols of sizes and ints

/// True if an operator's precondition holds. For data-dependent numbers the graph asserts it, and the frame runs
/// uncompiled if it fails.
bool holds(Trace& trace, Expr condition) {
  if (!condition) return false;
  shape::Assumptions& known = trace.shapes.assumptions;
  if (!known.is_unbacked(condition) || known.decide(condition)) return trace.decide(condition);
  trace.scope().assert_true(condition);
  return true;
}

/// A power with a constant exponent. If that is no natural number, both operands become floats.
Expr powered(Trace& trace, Expr base, Expr exponent) {
  using shape::Type;
  if (!is_constant(exponent)) return nullptr;
  if (exponent->type == Type::Int && exponent->constant >= 0) return power(base, exponent);
  const Expr real = to_float(base), zero = shape::float_constant(0), up = to_float(exponent);
  const bool of_zero = up && shape::float_value(up) > 0;
  const Expr has_power = of_zero ? at_least(real, zero) : less(zero, real);
  return holds(trace, has_power) ? power(real, up) : nullptr;
}

/// The operator's result as an expression; null if there is none, or if it raises.
Expr combined(Trace& trace, int op, Expr left, Expr right) {
  switch (op) {
    case NB_ADD:
      return add(left, right);
    case NB_SUBTRACT:
      return subtract(left, right);
    case NB_MULTIPLY:
      return multiply(left, right);
    case NB_POWER:
      return powered(trace, left, right);
    case NB_FLOOR_DIVIDE:
    case NB_REMAINDER:
    case NB_TRUE_DIVIDE: {
      const Expr divides =
          not_equal(right, right->type == shape::Type::Float ? shape::float_constant(0) : shape::constant(0));
      const Expr quotient = op == NB_FLOOR_DIVIDE ? floor_divide(left, right)
                            : op == NB_REMAINDER  ? modulo(left, right)
                                                  : true_divide(left, right);
      return quotient && holds(trace, divides) ? quotient : nullptr;
    }
    default:
      return nullptr;
  }
}

Expr compared(int op, Expr left, Expr right) {
  switch (op) {
    case Py_LT:
      return less(left, right);
    case Py_LE:
      return at_most(left, right);
    case Py_EQ:
      return equal(left, right);
    case Py_NE:
      return not_equal(left, right);
    case Py_GT:
      return greater(left, right);
    default:
      return at_least(left, right);
  }
}

/// The result of an operator that the graph may compute: it cannot raise for any operands within their bounds.
struct Computed {
  PyTypeObject* type = nullptr;  // null: the numbers must be known
  Interval range;
};

/// The result if it is safely bounded. Ints must stay within 64 bits, to be convertible to floats and usable in tensor
/// operators.
Computed within_bounds(PyTypeObject* type, Interval range) {
  constexpr double kLargestInt = 0x1p62;
  if (type != &PyFloat_Type && !(range.bound() <= kLargestInt)) return {};
  return {type, range};
}

/// A power: to a natural exponent with rounding at each multiplication, or with the bounds of power().
Computed powered(PyTypeObject* type, Interval base, Interval exponent, bool natural) {
  if (type == &PyFloat_Type)
    if (const Interval range = power(base, exponent); range.known()) return {type, range};
  const double bound = natural ? std::pow(base.bound(), exponent.bound()) : HUGE_VAL;
  return bound < 0x1p1000 ? within_bounds(type, Interval::around_zero(bound)) : Computed();
}

/// The type and bounds of `left op right`; no type if the numbers must be known, because a divisor may be zero or a
/// power may overflow.
Computed computed(int op, Value* left, Value* right) {
  PyTypeObject *a = numeric_type(left), *b = numeric_type(right);
  bool floats = a == &PyFloat_Type || b == &PyFloat_Type;
  bool bools = a == &PyBool_Type && b == &PyBool_Type;
  PyTypeObject* type = floats ? &PyFloat_Type : &PyLong_Type;
  const Interval p = range_of(left), q = range_of(right);
  const double x = p.bound(), y = q.bound();
  for (Value* side : {left, right})
    if (floats && numeric_type(side) != &PyFloat_Type && !range_of(side).known()) return {};
  const bool divides = right->kind == Kind::Constant && !is_zero(right);
  switch (op) {
    case NB_ADD:
      return within_bounds(type, sum(p, q));
    case NB_SUBTRACT:
      return within_bounds(type, difference(p, q));
    case NB_MULTIPLY:
      return within_bounds(type, product(p, q));
    case NB_FLOOR_DIVIDE:
      return divides ? within_bounds(type, Interval::around_zero(x / y + 1).or_unknown()) : Computed();
    case NB_REMAINDER:
      if (!divides || !(std::isfinite(x) || floats)) return {};
      return within_bounds(type, std::isfinite(x) ? Interval::around_zero(y) : Interval());
    case NB_TRUE_DIVIDE: {
      const bool never_zero = q.bounded() && !q.holds(0);
      return divides || never_zero ? within_bounds(&PyFloat_Type, quotient(p, q)) : Computed();
    }
    case NB_AND:
    case NB_OR:
    case NB_XOR:
      if (floats) return {};
      return within_bounds(bools ? &PyBool_Type : &PyLong_Type, Interval::around_zero(2 * (x + y) + 1).or_unknown());
    case NB_POWER:
      return powered(type, p, q, is_int(right) && !is_negative(right));
    default:
      return {};
  }
}

/// The operator's present result.
Owned<> example(PyObject* function, PyTypeObject* type, std::initializer_list<Value*> args) {
  std::vector<PyObject*> objects;
  for (Value* value : args) objects.push_back(value->object);
  Owned<> result = Owned<>::steal(PyObject_Vectorcall(function, objects.data(), objects.size(), nullptr));
  if (!result || Py_TYPE(result.get()) != type) GRAMME_BUG("arithmetic that was to give another number");
  return result;
}

/// Guards a varying float to lie in an interval, which becomes its bounds.
Interval guarded(Trace& trace, const Number* number, Interval around) {
  trace.facts.add(guards::between(number->source, around.low, around.high));
  return around;
}

constexpr double kLeast = 1 / source::kNarrow;

/// Guards a varying base of a power: one between 0 and 1 to stay near its value, others to stay positive if that
/// suffices.
void guard_base(Trace& trace, Value* left, Value* right) {
  auto* base = as<Number>(left);
  const bool varies = base && base->type == &PyFloat_Type && !base->expr && base->source;
  const bool natural = is_int(right) && !is_negative(right);
  if (!trace.contract.counts() || !varies || natural) return;
  const double now = PyFloat_AS_DOUBLE(base->object);
  const Interval positive{kLeast, base->range.known() ? base->range.high : 0};
  if (0x1p-1000 < now && now < 1 && !(base->range.low > 0 && base->range.high < 1))
    base->range = guarded(trace, base, {now / 2, (1 + now) / 2});
  else if (!(base->range.low > 0) && positive.holds(now) && power(positive, range_of(right)).known())
    base->range = guarded(trace, base, positive);
}

/// Guards a varying int exponent of a base between 0 and 1 (a decaying factor) to be non-negative, and to be positive
/// if it is: optimizers divide by 1 minus the power.
void guard_exponent(Trace& trace, Value* left, Value* right) {
  auto* exponent = as<Number>(right);
  const Interval base = range_of(left);
  const bool decays = base.known() && 0 < base.low && base.high <= 1;
  if (!trace.contract.counts() || !decays || !exponent || !exponent->expr || exponent->range.low >= 1) return;
  if (exponent->type == &PyFloat_Type) {  // a step count converted to float
    const Expr positive = at_least(exponent->expr, shape::float_constant(1));
    if (positive && trace.shapes.assumptions.decide(positive) == true) exponent->range.low = 1;
    return;
  }
  if (exponent->type != &PyLong_Type) return;
  const std::optional<int64_t> now = trace.shapes.assumptions.hint(exponent->expr);
  if (!now || *now < 0) return;
  const int64_t least = *now ? 1 : 0;
  if (exponent->range.low >= least) return;
  if (trace.decide(at_least(exponent->expr, shape::constant(least)))) exponent->range.low = static_cast<double>(least);
}

/// Guards a varying divisor to keep its sign and stay away from zero.
void guard_divisor(Trace& trace, Value* right) {
  auto* divisor = as<Number>(right);
  if (!trace.contract.counts() || !divisor || divisor->type != &PyFloat_Type) return;
  if (divisor->expr || !divisor->source) return;
  if (!divisor->range.known() || !divisor->range.holds(0)) return;
  const double now = PyFloat_AS_DOUBLE(divisor->object);
  if (!(std::fabs(now) >= kLeast)) return;
  const Interval around = now > 0 ? Interval{kLeast, divisor->range.high} : Interval{divisor->range.low, -kLeast};
  divisor->range = guarded(trace, divisor, around);
}

/// A graph node that calls a function of numbers.
Number* emit_number(Trace& trace, PyObject* function, std::initializer_list<Value*> args, const Computed& computed) {
  return trace.scope().emit_number(function, args, computed.type, computed.range,
                                   example(function, computed.type, args));
}

}  // namespace

Interval range_of(Value* seen) {
  if (auto* number = as<Number>(seen)) return number->range;
  double value = PyFloat_CheckExact(seen->object) ? PyFloat_AS_DOUBLE(seen->object) : PyLong_AsDouble(seen->object);
  if (value == -1.0 && PyErr_Occurred()) PyErr_Clear(), value = NAN;
  return Interval{value, value}.or_unknown();
}

Expr expression_of(Value* seen) {
  if (auto* number = as<Number>(seen)) return number->expr;
  if (is_constant_of(seen, &PyFloat_Type)) return shape::float_constant(PyFloat_AS_DOUBLE(seen->object));
  if (!is_int(seen)) return nullptr;
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(seen->object, &overflow);
  return overflow ? nullptr : shape::constant(value);
}

Value* number_by(Trace& trace, Expr e, PyObject* function, Value* left, Value* right) {
  if (!e || !(trace.shapes.assumptions.hint(e) || trace.shapes.assumptions.is_unbacked(e))) return nullptr;
  Value* made = trace.numbers.expression(e);
  auto* number = as<Number>(made);
  if (!number) {
    trace.scope().skip_name(function);
    return made;
  }
  number->function = function;
  number->operands[0] = left;
  number->operands[1] = right;
  trace.scope().node(number);
  return made;
}

PyObject* known_number(Trace& trace, Number* number, Reason reason) {
  const bool is_data = trace.scope().is_data(number);
  if (PyObject* object = trace.constant_of(number)) return object;
  if (is_data && trace.data.scalars)
    cannot(reason == Reason::DataDependentBranch ? Reason::UnbackedCondition : Reason::UnbackedNumber,
           std::string("a ") + number->type->tp_name + " computed from a tensor");
  cannot(reason, "a Python number computed from a tensor");
}

Value* known(Trace& trace, Value* seen, Reason reason) {
  auto* number = as<Number>(seen);
  return number ? trace.constant(known_number(trace, number, reason)) : seen;
}

std::optional<bool> truth_of_expression(Trace& trace, Number* number) {
  if (!number->expr || number->type == &PyFloat_Type) return std::nullopt;
  const bool is_bool = number->type == &PyBool_Type;
  const Expr e = is_bool ? number->expr : not_equal(number->expr, shape::constant(0));
  return e ? std::optional(trace.decide(e)) : std::nullopt;
}

Value* number_binary(Trace& trace, int op, Value* left, Value* right) {
  const bool numeric = is_numeric(left) && is_numeric(right);
  if (numeric && plain_operator(op) == NB_POWER) {
    guard_base(trace, left, right);
    guard_exponent(trace, left, right);
  }
  if (numeric && plain_operator(op) == NB_TRUE_DIVIDE) guard_divisor(trace, right);
  const Computed result = numeric ? computed(plain_operator(op), left, right) : Computed();
  if (const Expr a = expression_of(left), b = expression_of(right); numeric && a && b)
    if (Value* made = number_by(trace, combined(trace, plain_operator(op), a, b),
                                operator_row(plain_operator(op)).function, left, right)) {
      if (auto* number = as<Number>(made); number && result.type) number->range = narrower(number->range, result.range);
      return made;
    }
  if (numeric)
    if (Value* made = data_binary(trace, plain_operator(op), left, right, result.type)) return made;
  if (!result.type) return binary(trace, op, known(trace, left), known(trace, right));
  return emit_number(trace, operator_row(op).function, {left, right}, result);
}

Value* number_compare(Trace& trace, int op, Value* left, Value* right) {
  if (!is_numeric(left) || !is_numeric(right)) {
    // Only numbers equal numbers; methods of the program's classes were tried before.
    bool equality = op == Py_EQ || op == Py_NE;
    if (equality && !is_constant_of(left, &PyComplex_Type) && !is_constant_of(right, &PyComplex_Type))
      return trace.boolean(op == Py_NE);
    return compare(trace, op, known(trace, left), known(trace, right));
  }
  if (const Expr a = expression_of(left), b = expression_of(right); a && b)
    if (Value* made = number_by(trace, compared(op, a, b), comparison_row(op).function, left, right)) return made;
  if (Value* made = data_compare(trace, op, left, right)) return made;
  Number* made = emit_number(trace, comparison_row(op).function, {left, right}, {&PyBool_Type, {0, 1}});
  note_comparison(trace, made, op, left, right);
  return made;
}

Value* number_extreme(Trace& trace, int op, PyObject* function, Value* left, Value* right) {
  auto is_float = [](Value* seen) {
    auto* number = as<Number>(seen);
    return number ? number->type == &PyFloat_Type : is_constant_of(seen, &PyFloat_Type);
  };
  if (!trace.contract.counts() || !is_float(left) || !is_float(right)) return nullptr;
  if (left->kind == Kind::Constant && right->kind == Kind::Constant) return nullptr;
  const Interval a = range_of(left), b = range_of(right);
  PyObject* const larger = once([] { return imported("torch", "sym_max").release(); });
  PyObject* const smaller = once([] { return imported("torch", "sym_min").release(); });
  if (!trace.contract.as_is) function = op == Py_GT ? larger : smaller;
  return emit_number(trace, function, {left, right}, {&PyFloat_Type, op == Py_GT ? maximum(a, b) : minimum(a, b)});
}

Value* number_power(Trace& trace, PyObject* function, Value* base, Value* exponent) {
  const bool varies = base->kind == Kind::Number || exponent->kind == Kind::Number;
  if (!trace.contract.counts() || !varies || !is_numeric(base) || !is_numeric(exponent)) return nullptr;
  guard_base(trace, base, exponent);
  guard_exponent(trace, base, exponent);
  const Interval range = power(range_of(base), range_of(exponent));
  if (!range.known()) return nullptr;
  if (!trace.contract.as_is) function = operator_row(NB_POWER).function;
  return emit_number(trace, function, {base, exponent}, {&PyFloat_Type, range});
}

Value* number_root(Trace& trace, PyObject* function, Value* operand) {
  auto* number = as<Number>(operand);
  if (!trace.contract.counts() || !number) return nullptr;
  if (number->expr && !trace.numbers.has_of_optimizer()) return nullptr;
  const Interval range = number->range;
  if (!range.known() || range.low < 0) return nullptr;
  if (!trace.contract.as_is) function = of_torch::object(of_torch::SymSqrt);
  return emit_number(trace, function, {operand}, {&PyFloat_Type, {std::sqrt(range.low), std::sqrt(range.high)}});
}

Value* number_unary(Trace& trace, Unary op, Number* operand) {
  PyObject* const negative = once([] { return operator_function("neg"); });
  PyObject* const positive = once([] { return operator_function("pos"); });
  PyObject* const invert = once([] { return operator_function("invert"); });
  if (op == Unary::Invert && operand->type == &PyFloat_Type) return unary(trace, op, known(trace, operand));
  PyObject* function = op == Unary::Negative ? negative : op == Unary::Positive ? positive : invert;
  if (operand->expr && operand->type == &PyLong_Type) {
    if (op == Unary::Positive) return operand;
    const Expr negated = negate(operand->expr);
    const Expr e = op == Unary::Negative ? negated : subtract(negated, shape::constant(1));
    if (Value* made = number_by(trace, e, function, operand)) return made;
  }
  if (op == Unary::Negative)
    if (Value* made = data_negative(trace, operand)) return made;
  if (op == Unary::Positive && operand->type == &PyFloat_Type) return operand;
  PyTypeObject* type = operand->type == &PyFloat_Type ? &PyFloat_Type : &PyLong_Type;
  const Interval range = op == Unary::Negative   ? meta::negative(operand->range)
                         : op == Unary::Positive ? operand->range
                                                 : Interval::around_zero(operand->range.bound() + 1).or_unknown();
  return emit_number(trace, function, {operand}, {type, range});
}

}  // namespace gramme::protocol
