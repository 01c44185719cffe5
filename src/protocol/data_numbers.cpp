// Arithmetic on data-dependent floats.
//
// Where graphs run as they are, nodes call Python's functions; if one raises, the frame runs uncompiled. Compilers get
// float64 tensors instead. To them a data-dependent float is a sympy symbol, a real number: v - v is 0, and addition is
// associative. Their kernels also return infinities where Python raises.
#include "protocol/data_numbers.h"

#include <algorithm>
#include <cmath>

#include "base/imported.h"
#include "base/once.h"
#include "protocol/number.h"
#include "protocol/operator_table.h"
#include "protocol/special.h"
#include "torch/names.h"

namespace gramme::protocol {

using namespace value;

namespace {

PyTypeObject* numeric_type(Value* seen) {
  auto* number = as<Number>(seen);
  return number ? number->type : Py_TYPE(seen->object);
}

bool is_number(Value* seen) {
  return seen->kind == Kind::Number || is_int(seen) || is_constant_of(seen, &PyFloat_Type);
}

/// True for data-dependent floats; under compilers also for bools from comparing such floats.
bool is_data(Trace& trace, Value* seen) {
  auto* number = as<Number>(seen);
  const bool taken = number && number->type != &PyLong_Type && (number->type == &PyFloat_Type || !trace.contract.as_is);
  return taken && trace.data.scalars && trace.scope().is_data(number);
}

/// A node that may raise; the frame then runs uncompiled.
Number* emit_raising(Trace& trace, PyObject* function, std::initializer_list<Value*> args, PyTypeObject* type) {
  trace.scope().expect_raise();
  Owned<> example = type == &PyBool_Type ? share(Py_True) : take(PyFloat_FromDouble(2.0));
  Number* number = trace.scope().emit_number(function, args, type, {}, std::move(example));
  number->node->effect = true;
  return number;
}

// ---- in tensors of float64

template <size_t N>
struct Name {
  constexpr Name(const char (&text)[N]) { std::copy_n(text, N, this->text); }
  char text[N];
};

template <Name name>
Tensor* by_torch(Trace& trace, std::initializer_list<Value*> args) {
  PyObject* const function = once([] { return imported("torch", name.text).release(); });
  auto* tensor = as<Tensor>(trace.see(trace.emit(function, args)));
  if (!tensor) cannot(Reason::DataDependentValue, name.text);
  return tensor;
}

Value* real_number(Trace& trace, double value) { return trace.constant(take(PyFloat_FromDouble(value))); }

/// The operand as a float64 tensor; null for a constant that no float equals.
Tensor* in_tensor(Trace& trace, Value* operand) {
  if (operand->kind != Kind::Constant) return trace.scope().as_tensor(operand);
  Owned<> real = Owned<>::steal(PyNumber_Float(operand->object));
  if (real) return trace.scope().as_tensor(trace.constant(std::move(real)));
  PyErr_Clear();
  return nullptr;
}

/// Asserts in the graph. Kernels on the CPU raise; on other devices a failed assertion would end the process.
void assert_data(Trace& trace, Tensor* condition) {
  PyObject* const check = of_torch::object(of_torch::AssertAsync);
  const bool tells = condition->record->device_type == 0;
  if (tells)
    trace.emit(check, {condition, trace.text("Runtime assertion failed: of a float that comes out of data")});
  else
    trace.scope().assert_true(trace.scope().item_of(condition));
}

Tensor* computed(Trace& trace, int op, Tensor* left, Tensor* right) {
  switch (op) {
    case NB_ADD:
      return by_torch<"add">(trace, {left, right});
    case NB_SUBTRACT:
      return by_torch<"sub">(trace, {left, right});
    case NB_MULTIPLY:
      return by_torch<"mul">(trace, {left, right});
    case NB_TRUE_DIVIDE:
      return by_torch<"true_divide">(trace, {left, right});
    default:
      return nullptr;
  }
}

Tensor* compared(Trace& trace, int op, Tensor* left, Tensor* right) {
  switch (op) {
    case Py_LT:
      return by_torch<"lt">(trace, {left, right});
    case Py_LE:
      return by_torch<"le">(trace, {left, right});
    case Py_EQ:
      return by_torch<"eq">(trace, {left, right});
    case Py_NE:
      return by_torch<"ne">(trace, {left, right});
    case Py_GT:
      return by_torch<"gt">(trace, {left, right});
    default:
      return by_torch<"ge">(trace, {left, right});
  }
}

/// True if comparing as floats gives Python's exact comparison: the operand is a float, or an int that a float
/// represents.
bool is_exact(Value* seen) { return numeric_type(seen) != &PyLong_Type || range_of(seen).bound() <= 0x1p53; }

Tensor* rounded(Trace& trace, Whole how, Tensor* number) {
  switch (how) {
    case Whole::Truncate:
      return by_torch<"trunc">(trace, {number});
    case Whole::Floor:
      return by_torch<"floor">(trace, {number});
    case Whole::Ceil:
      return by_torch<"ceil">(trace, {number});
    case Whole::Round:
      return by_torch<"round">(trace, {number});
  }
  return nullptr;
}

/// The whole number of 64 bits in the tensor. If it does not fit, or Python would raise, the frame runs uncompiled.
Value* whole_of(Trace& trace, Tensor* number) {
  static PyObject* const to = intern("to");
  PyObject* const int64 = once([] { return imported("torch", "int64").release(); });
  assert_data(trace, by_torch<"lt">(trace, {by_torch<"abs">(trace, {number}), real_number(trace, 0x1p63)}));
  Value* args[] = {number, trace.constant(int64)};
  return trace.scope().item_of(static_cast<Tensor*>(trace.emit_method(to, Args{args, 2, nullptr, 0})));
}

}  // namespace

bool is_data_float(Trace& trace, Value* seen) {
  auto* number = as<Number>(seen);
  return number && number->type == &PyFloat_Type && is_data(trace, number);
}

Value* data_whole(Trace& trace, Whole how, Number* number) {
  PyObject* const trunc = once([] { return imported("torch", "sym_int").release(); });
  PyObject* const floor = once([] { return imported("math", "floor").release(); });
  PyObject* const ceil = once([] { return imported("math", "ceil").release(); });
  PyObject* const round = once([] { return imported("builtins", "round").release(); });
  if (!trace.contract.as_is) return whole_of(trace, rounded(trace, how, trace.scope().as_tensor(number)));
  PyObject* const function = how == Whole::Truncate ? trunc
                             : how == Whole::Floor  ? floor
                             : how == Whole::Ceil   ? ceil
                                                    : round;
  return trace.scope().emit_whole(function, {number});
}

namespace {

/// Asserts a base for which the power is real: a negative base with a fractional exponent is complex, and then the
/// frame runs uncompiled.
void assert_base(Trace& trace, Value* base, Value* exponent) {
  auto* number = as<Number>(exponent);
  const bool whole = number ? number->type != &PyFloat_Type : Py_TYPE(exponent->object) != &PyFloat_Type;
  const double known = !number && !whole ? PyFloat_AS_DOUBLE(exponent->object) : 0.5;
  if (whole || known == std::floor(known)) return;
  Value* positive = trace.see(number_compare(trace, Py_GE, base, trace.integer(0)));
  if (auto* truth = as<Number>(positive))
    trace.scope().assert_true(truth);
  else if (positive->object != Py_True)
    cannot(Reason::UnbackedNumber, "a power of a number below zero");
}

}  // namespace

Value* data_binary(Trace& trace, int op, Value* left, Value* right, bool plain) {
  const bool real = numeric_type(left) == &PyFloat_Type || numeric_type(right) == &PyFloat_Type;
  if (!real || !(is_data(trace, left) || is_data(trace, right))) return nullptr;
  const bool bits = op == NB_AND || op == NB_OR || op == NB_XOR || op == NB_LSHIFT || op == NB_RSHIFT;
  if (bits || op == NB_MATRIX_MULTIPLY || (plain && trace.contract.as_is)) return nullptr;
  if (trace.contract.as_is && op == NB_POWER) assert_base(trace, left, right);
  if (trace.contract.as_is) return emit_raising(trace, operator_row(op).function, {left, right}, &PyFloat_Type);
  const bool known = op == NB_ADD || op == NB_SUBTRACT || op == NB_MULTIPLY || op == NB_TRUE_DIVIDE;
  Tensor* const a = known ? in_tensor(trace, left) : nullptr;
  Tensor* const b = a ? in_tensor(trace, right) : nullptr;
  if (!b)
    cannot(Reason::UnbackedNumber, "an operator of floats computed from tensors that the backend has no form for");
  const bool divides = op == NB_TRUE_DIVIDE && !(right->kind == Kind::Constant && PyObject_IsTrue(right->object) == 1);
  if (divides) assert_data(trace, by_torch<"ne">(trace, {b, real_number(trace, 0)}));
  return trace.scope().item_of(computed(trace, op, a, b));
}

Value* data_compare(Trace& trace, int op, Value* left, Value* right) {
  const bool real = is_data_float(trace, left) || is_data_float(trace, right);
  if (trace.contract.as_is || !real || !is_exact(left) || !is_exact(right)) return nullptr;
  return trace.scope().item_of(compared(trace, op, in_tensor(trace, left), in_tensor(trace, right)));
}

Value* data_negative(Trace& trace, Value* operand) {
  if (trace.contract.as_is || !is_data_float(trace, operand)) return nullptr;
  Number* number = trace.scope().item_of(by_torch<"neg">(trace, {trace.scope().as_tensor(operand)}));
  number->range = negative(range_of(operand));
  return number;
}

Value* data_absolute(Trace& trace, Value* operand) {
  PyObject* const absolute = once([] { return imported("_operator", "abs").release(); });
  if (!is_data_float(trace, operand)) return nullptr;
  const meta::Interval range = range_of(operand);
  if (trace.contract.as_is)
    return trace.scope().emit_number(absolute, {operand}, &PyFloat_Type, range, take(PyFloat_FromDouble(2.0)));
  Number* number = trace.scope().item_of(by_torch<"abs">(trace, {trace.scope().as_tensor(operand)}));
  number->range = {std::min(range.low, 0.0), range.finite_bound(), range.special};
  return number;
}

Value* data_extreme(Trace& trace, int op, PyObject* function, Value* left, Value* right) {
  const bool real = is_number(left) && is_number(right) && numeric_type(left) == &PyFloat_Type &&
                    numeric_type(right) == &PyFloat_Type;
  if (!real || !(is_data(trace, left) || is_data(trace, right))) return nullptr;
  if (trace.contract.as_is)
    return trace.scope().emit_number(function, {left, right}, &PyFloat_Type, {}, take(PyFloat_FromDouble(2.0)));
  Tensor *const a = in_tensor(trace, left), *const b = in_tensor(trace, right);
  return trace.scope().item_of(by_torch<"where">(trace, {compared(trace, op, b, a), b, a}));  // the first of equals
}

Value* data_root(Trace& trace, Value* operand) {
  if (trace.contract.as_is || !is_data_float(trace, operand)) return nullptr;
  Tensor* const number = trace.scope().as_tensor(operand);
  assert_data(trace, by_torch<"ge">(trace, {number, real_number(trace, 0)}));
  return trace.scope().item_of(by_torch<"sqrt">(trace, {number}));
}

Value* data_function(Trace& trace, PyObject* function, const Args& args, PyTypeObject* type) {
  bool data = false, numbers = !args.keywords && args.positional > 0 && args.positional <= 2;
  for (size_t i = 0; i < args.positional && numbers; ++i) {
    Value* seen = trace.see(args[i]);
    numbers = is_number(seen);
    data |= numbers && is_data_float(trace, seen);
  }
  if (!numbers || !data || !trace.contract.as_is) return nullptr;
  if (args.positional == 1) return emit_raising(trace, function, {trace.see(args[0])}, type);
  return emit_raising(trace, function, {trace.see(args[0]), trace.see(args[1])}, type);
}

}  // namespace gramme::protocol
