#include "protocol/number.h"

#include <cmath>

#include "base/once.h"
#include "protocol/operator_table.h"
#include "protocol/special.h"

namespace gramme::protocol {

using namespace value;

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

double bound_of(Value* seen) {
  if (auto* number = as<Number>(seen)) return number->bound;
  double value = PyFloat_CheckExact(seen->object) ? PyFloat_AS_DOUBLE(seen->object) : PyLong_AsDouble(seen->object);
  if (value == -1.0 && PyErr_Occurred()) PyErr_Clear(), value = NAN;
  return std::isnan(value) ? HUGE_VAL : std::fabs(value);
}

/// What the graph may compute: an operator that cannot raise, whatever the numbers are within their bounds.
struct Computed {
  PyTypeObject* type = nullptr;  // null: the numbers must be known
  double bound = HUGE_VAL;
};

/// Ints stay within 64 bits: so they can be converted to floats, and be numbers of tensors' operators.
Computed within_bounds(PyTypeObject* type, double bound) {
  constexpr double kLargestInt = 0x1p62;
  if (std::isnan(bound)) bound = HUGE_VAL;  // 0 times what nothing is known of
  if (type != &PyFloat_Type && !(bound <= kLargestInt)) return {};
  return {type, bound};
}

/// A divisor that varies may be zero, an exponent may take the result beyond all floats: they must be known.
Computed computed(int op, Value* left, Value* right) {
  PyTypeObject *a = numeric_type(left), *b = numeric_type(right);
  bool floats = a == &PyFloat_Type || b == &PyFloat_Type;
  bool bools = a == &PyBool_Type && b == &PyBool_Type;
  PyTypeObject* type = floats ? &PyFloat_Type : &PyLong_Type;
  const double x = bound_of(left), y = bound_of(right);
  for (Value* side : {left, right})
    if (floats && numeric_type(side) != &PyFloat_Type && !std::isfinite(bound_of(side))) return {};
  const bool divides = right->kind == Kind::Constant && !is_zero(right);
  switch (op) {
    case NB_ADD:
    case NB_SUBTRACT:
      return within_bounds(type, x + y);
    case NB_MULTIPLY:
      return within_bounds(type, x * y);
    case NB_FLOOR_DIVIDE:
      return divides ? within_bounds(type, x / y + 1) : Computed();
    case NB_REMAINDER:
      return divides && std::isfinite(x) ? within_bounds(type, y) : divides && floats ? Computed{type} : Computed();
    case NB_TRUE_DIVIDE:
      return divides ? within_bounds(&PyFloat_Type, x / y) : Computed();
    case NB_AND:
    case NB_OR:
    case NB_XOR:
      return floats ? Computed() : within_bounds(bools ? &PyBool_Type : &PyLong_Type, 2 * (x + y) + 1);
    case NB_POWER: {
      if (!is_int(right) || is_negative(right)) return {};
      const double bound = std::pow(x, y);
      return bound < 0x1p1000 ? within_bounds(type, bound) : Computed();
    }
    default:
      return {};
  }
}

/// What the operator gives now.
Owned<> example(PyObject* function, PyTypeObject* type, std::initializer_list<Value*> args) {
  std::vector<PyObject*> objects;
  for (Value* value : args) objects.push_back(value->object);
  Owned<> result = Owned<>::steal(PyObject_Vectorcall(function, objects.data(), objects.size(), nullptr));
  if (!result || Py_TYPE(result.get()) != type) GRAMME_BUG("arithmetic that was to give another number");
  return result;
}

/// A call of a function of numbers in the graph.
Number* emit_number(Trace& trace, PyObject* function, std::initializer_list<Value*> args, const Computed& computed) {
  return trace.scope().emit_number(function, args, computed.type, computed.bound,
                                   example(function, computed.type, args));
}

}  // namespace

PyObject* known_number(Trace& trace, Number* number, Reason reason) {
  if (PyObject* object = trace.constant_of(number)) return object;
  cannot(reason, "a Python number computed from a tensor");
}

Value* known(Trace& trace, Value* seen, Reason reason) {
  auto* number = as<Number>(seen);
  return number ? trace.constant(known_number(trace, number, reason)) : seen;
}

Value* number_binary(Trace& trace, int op, Value* left, Value* right) {
  bool numeric = is_numeric(left) && is_numeric(right);
  Computed result = numeric ? computed(plain_operator(op), left, right) : Computed();
  if (!result.type) return binary(trace, op, known(trace, left), known(trace, right));
  return emit_number(trace, operator_row(op).function, {left, right}, result);
}

Value* number_compare(Trace& trace, int op, Value* left, Value* right) {
  if (!is_numeric(left) || !is_numeric(right)) {
    // Only numbers equal numbers; classes of the program were asked before.
    bool equality = op == Py_EQ || op == Py_NE;
    if (equality && !is_constant_of(left, &PyComplex_Type) && !is_constant_of(right, &PyComplex_Type))
      return trace.boolean(op == Py_NE);
    return compare(trace, op, known(trace, left), known(trace, right));
  }
  return emit_number(trace, comparison_row(op).function, {left, right}, {&PyBool_Type, 1});
}

Value* number_unary(Trace& trace, Unary op, Number* operand) {
  PyObject* const negative = once([] { return operator_function("neg"); });
  PyObject* const positive = once([] { return operator_function("pos"); });
  PyObject* const invert = once([] { return operator_function("invert"); });
  if (op == Unary::Invert && operand->type == &PyFloat_Type) return unary(trace, op, known(trace, operand));
  PyObject* function = op == Unary::Negative ? negative : op == Unary::Positive ? positive : invert;
  PyTypeObject* type = operand->type == &PyFloat_Type ? &PyFloat_Type : &PyLong_Type;
  return emit_number(trace, function, {operand}, {type, operand->bound + 1});
}

}  // namespace gramme::protocol
