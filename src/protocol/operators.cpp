// Unary and binary operators: constants are folded, tensors make graph nodes, the program's classes are called.

#include "base/integer.h"
#include "base/once.h"
#include "cpython/concrete.h"
#include "cpython/features.h"
#include "protocol/combine.h"
#include "protocol/number.h"
#include "protocol/numpy.h"
#include "protocol/operator_table.h"
#include "protocol/percent.h"
#include "protocol/special.h"
#include "protocol/tensors.h"
#include "value/traits.h"

namespace gramme::protocol {

using namespace value;

namespace {

// ---- constants

/// An int's size in bits, or the length of a str or bytes.
size_t weight(PyObject* object) {
  if (PyLong_CheckExact(object)) return _PyLong_NumBits(object);
  if (PyUnicode_CheckExact(object)) return static_cast<size_t>(PyUnicode_GET_LENGTH(object));
  if (PyBytes_CheckExact(object)) return static_cast<size_t>(PyBytes_GET_SIZE(object));
  return 1;
}

/// True if folding would take too long: the work would be done twice, so it is left to the program.
bool too_large(int op, PyObject* left, PyObject* right) {
  constexpr size_t kLimit = 1'000'000;
  auto factor = [](PyObject* object) {
    if (!PyLong_CheckExact(object)) return size_t{1};
    size_t n = PyLong_AsSize_t(object);
    if (n == static_cast<size_t>(-1) && PyErr_Occurred()) {
      PyErr_Clear();
      return sign_of(object) < 0 ? size_t{1} : kLimit + 1;
    }
    return n;
  };
  switch (plain_operator(op)) {
    case NB_POWER:
      return PyLong_CheckExact(left) && PyLong_CheckExact(right) && weight(left) > 1 &&
             weight(left) * factor(right) > kLimit;
    case NB_LSHIFT:
      return PyLong_CheckExact(left) && sign_of(left) != 0 && factor(right) > kLimit;
    case NB_MULTIPLY:
      if (PyUnicode_CheckExact(left) || PyBytes_CheckExact(left)) return weight(left) * factor(right) > kLimit;
      if (PyUnicode_CheckExact(right) || PyBytes_CheckExact(right)) return weight(right) * factor(left) > kLimit;
      return weight(left) + weight(right) > kLimit;
    default:
      return false;
  }
}

Value* fold_binary(Trace& trace, int op, PyObject* left, PyObject* right) {
  if (too_large(op, left, right)) cannot(Reason::Budget, "a very large constant");
  return folded(trace, cpython::binary_operation(op, left, right));
}

// ---- tensors

/// Calls the operator as the method that torch function modes intercept.
Value* seen_by_modes(Trace& trace, int op, Value* left, Value* right) {
  const char* name = op == NB_ADD ? "add" : op == NB_SUBTRACT ? "sub" : op == NB_MULTIPLY ? "mul" : nullptr;
  if (!name || left->kind != Kind::Tensor) cannot(Reason::CallUnknown, "an operator that a torch function mode sees");
  return call(trace, trace.pinned(trace.type_lookup(type_of(left), intern(name))), {left, right});
}

/// The operator as calls of the operands' methods, for tensors whose class is asked.
Value* by_methods(Trace& trace, int op, Value* left, Value* right) {
  const Operator& row = operator_row(op);
  PyTypeObject *a = type_of(left), *b = type_of(right);
  if (is_in_place(op))
    if (Value* result = call_by_name(trace, left, row.in_place_method, {right})) return result;
  const bool both = left->kind == Kind::Tensor && right->kind == Kind::Tensor;
  const bool first = both && a != b && trace.is_subtype(b, a) &&
                     trace.type_lookup(a, row.reflected) != trace.type_lookup(b, row.reflected);
  if (first)
    if (Value* result = call_by_name(trace, right, row.reflected, {left})) return result;
  if (Value* result = call_by_name(trace, left, row.method, {right})) return result;
  if (!first && a != b)
    if (Value* result = call_by_name(trace, right, row.reflected, {left})) return result;
  cannot(Reason::TensorSubclass, "operands that do not go together");
}

Value* tensor_binary(Trace& trace, int op, Value* left, Value* right) {
  if (is_asked(trace, left) || is_asked(trace, right)) return by_methods(trace, op, left, right);
  if (trace.scope().modes().in_function_mode()) return seen_by_modes(trace, op, left, right);
  const Operator& row = operator_row(op);
  bool in_place = is_in_place(op) && left->kind == Kind::Tensor;
  refuse_replaced(trace, {left, right}, {row.method, row.reflected});
  if (in_place) refuse_replaced(trace, {left}, {row.in_place_method});
  return trace.emit(in_place ? row.in_place : row.function, {left, right});
}

bool overrides_torch_functions(Trace& trace, Value* seen) {
  static PyObject* const name = intern("__torch_function__");
  return seen->kind == Kind::Object && trace.type_lookup(static_cast<Object*>(seen)->type, name);
}

// ---- classes of the program

/// True if the right operand's class is a subclass that overrides the reflected method, which then comes first.
bool reflected_first(Trace& trace, Value* left, Value* right, PyObject* reflected) {
  PyTypeObject *a = type_of(left), *b = type_of(right);
  return a != b && trace.is_subtype(b, a) && trace.type_lookup(a, reflected) != trace.type_lookup(b, reflected);
}

bool is_frozen(Value* seen) {
  auto* set = as<Set>(seen);
  return set && set->frozen;
}

/// True if the C method of the left operand's type accepts the right one's builtin part, so that no class is asked.
bool converts(int op, Value* left, Value* part) {
  if (left->kind == Kind::Set && part->kind == Kind::Set) return true;
  if (left->kind == Kind::Dict && part->kind == Kind::Dict) return plain_operator(op) == NB_OR;
  bool real = is_int(part) || extends(part, &PyLong_Type) || extends(part, &PyFloat_Type);
  PyTypeObject* type = type_of(left);
  bool plain = left->kind == Kind::Constant || left->kind == Kind::Number;
  bool takes = plain && real && (type == &PyFloat_Type || type == &PyComplex_Type);
  if (takes && part->kind == Kind::Object) cannot(Reason::ArgumentKind, "an operand of type " + type_name(part));
  return takes;
}

/// The result of the classes' own methods; null if there is none, or all return NotImplemented.
Value* user_binary(Trace& trace, int op, Value* left, Value* right) {
  const Operator& row = operator_row(op);
  if (is_in_place(op))
    if (Value* result = attempt(trace, left, row.in_place_method, {right})) return result;
  if (is_in_place(op) && converts(op, left, builtin_part(right)) && !is_frozen(left)) return nullptr;
  bool first = reflected_first(trace, left, right, row.reflected);
  if (first)
    if (Value* result = attempt(trace, right, row.reflected, {left})) return result;
  if (Value* result = attempt(trace, left, row.method, {right})) return result;
  if (first || type_of(left) == type_of(right) || converts(op, left, builtin_part(right))) return nullptr;
  return attempt(trace, right, row.reflected, {left});
}

[[noreturn]] void unsupported(Trace& trace, int op, Value* left, Value* right) {
  const char* symbol = operator_row(op).symbol;
  std::string text = symbol;
  if (is_in_place(op)) text += "=";
  if (op == NB_POWER) text = "** or pow()";
  raise(trace, PyExc_TypeError,
        "unsupported operand type(s) for " + text + ": '" + type_name(left) + "' and '" + type_name(right) + "'");
}

bool is_text(Value* seen) { return is_constant_of(seen, &PyUnicode_Type) || is_constant_of(seen, &PyBytes_Type); }

/// Operators on operands without their own methods; null if they do not support it.
Value* builtin_binary(Trace& trace, int op, Operands operands) {
  Value *&left = operands.left, *&right = operands.right;
  if (left->kind == Kind::Constant && right->kind == Kind::Constant)
    return fold_binary(trace, op, left->object, right->object);
  if (plain_operator(op) == NB_REMAINDER && is_text(left)) return percent(trace, left, right);
  bool extends = op == NB_INPLACE_ADD && (left->kind == Kind::List || left->kind == Kind::Deque);
  if (extends) return combine(trace, op, operands);
  if (left->kind == Kind::Tensor || right->kind == Kind::Tensor) return tensor_binary(trace, op, left, right);
  if (left->kind == Kind::Number || right->kind == Kind::Number) {
    bool container = left->kind != Kind::Constant && left->kind != Kind::Number;
    container |= right->kind != Kind::Constant && right->kind != Kind::Number;
    if (!container) return number_binary(trace, op, left, right);
    left = known(trace, left);
    right = known(trace, right);
  }
  return combine(trace, op, operands);
}

/// True for an operator that all C numbers have, or all sets.
bool is_common(int op, Value* right) {
  switch (plain_operator(op)) {
    case NB_ADD:
    case NB_MULTIPLY:
    case NB_TRUE_DIVIDE:
    case NB_POWER:
      return builtin_part(right)->kind == Kind::Constant;
    case NB_AND:
    case NB_OR:
    case NB_XOR:
      return builtin_part(right)->kind == Kind::Set;
    default:
      return plain_operator(op) == NB_SUBTRACT;
  }
}

}  // namespace

bool answers_operator(Trace& trace, int op, Value* left, Value* right, PyObject* function) {
  const Operator& row = operator_row(op);
  auto is = [&](Value* operand, PyObject* name) {
    return name && trace.type_lookup(type_of(trace.see(operand)), name) == function;
  };
  return is(left, row.method) || (is_in_place(op) && is(left, row.in_place_method)) || is(right, row.reflected);
}

Value* binary(Trace& trace, int op, Value* left, Value* right) {
  left = trace.see(left);
  right = trace.see(right);
  if (left->kind == Kind::Constant && right->kind == Kind::Constant)
    return fold_binary(trace, op, left->object, right->object);
  if (is_numpy_scalar(left) || is_numpy_scalar(right))
    if (Value* result = numpy_operator(trace, &cpython::binary_operation, op, left, right)) return result;
  // The container is already changed when it asks its operand for the next item.
  if (is_in_place(op) && left->kind != Kind::Object) trace.enter_opaque();
  bool formats = plain_operator(op) == NB_REMAINDER && is_text(left);
  bool in_place =
      op == NB_INPLACE_ADD && payload_for(trace, left, operator_row(op).in_place_method);  // list subclasses first
  for (Value* operand : {left, right})
    if (auto* held = payload_of(operand); held && held->kind == Kind::Deque)
      cannot(Reason::ArgumentKind, "an operator of a deque's subclass");
  if (op == NB_INPLACE_OR && left->kind == Kind::Dict && has_own_class(right)) {  // dict's own method comes first
    static PyObject* const update = intern("update");
    call_method(trace, left, update, {right});
    return left;
  }
  if (!formats && !in_place && (has_own_class(left) || has_own_class(right))) {
    if (overrides_torch_functions(trace, left) || overrides_torch_functions(trace, right))
      cannot(Reason::ArgumentKind, "an operand with __torch_function__");
    const bool left_first = takes_first(left, right);
    if (left_first && (is_opaque_scalar(right) || !is_common(op, right)))
      cannot(Reason::ArgumentKind, "an operand of type " + type_name(right));
    Value* result = left_first ? nullptr : user_binary(trace, op, left, right);
    if (result) return result;
    if (is_opaque_scalar(left) || is_opaque_scalar(right))
      cannot(Reason::ArgumentKind, "operands of types " + type_name(left) + " and " + type_name(right));
  }
  Value *a = builtin_part(left), *b = formats ? right : builtin_part(right);
  bool tensor = a->kind == Kind::Tensor || b->kind == Kind::Tensor;
  if (tensor && (a->kind == Kind::Object || b->kind == Kind::Object)) unsupported(trace, op, left, right);
  if (op == NB_INPLACE_ADD && a->kind == Kind::List && has_own_class(right)) {
    extend(trace, a, right);
    return left;
  }
  for (Value* part : {left == a ? nullptr : a, right == b ? nullptr : b})
    if (auto* held = part ? as<Dict>(part) : nullptr; held && held->type == &PyODict_Type)
      cannot(Reason::ArgumentKind, "an operator of an OrderedDict's subclass");  // makes another of it
  bool dicts = plain_operator(op) == NB_OR && left != a && a->kind == Kind::Dict && b->kind == Kind::Dict;
  if (dicts && static_cast<Dict*>(b)->type != &PyDict_Type && !payload_for(trace, left, operator_row(op).method))
    cannot(Reason::ArgumentKind, "a dict's subclass with its own operators beside " + type_name(b));
  Value* result = on_parts(trace, left != a || right != b,
                           [&] { return builtin_binary(trace, op, {a, b, type_name(left), type_name(right)}); });
  if (!result) unsupported(trace, op, left, right);
  return is_in_place(op) && result == a ? left : result;
}

namespace {

struct UnaryRow {
  PyObject *function, *method;
  PyObject* (*fold)(PyObject*);
  const char* text;
};

const UnaryRow& unary_row(Unary op) {
  using Rows = std::array<UnaryRow, 3>;
  const Rows* rows = once([] {
    return new Rows{{
        {operator_function("neg"), intern("__neg__"), PyNumber_Negative, "bad operand type for unary -: '{}'"},
        {operator_function("pos"), intern("__pos__"), PyNumber_Positive, "bad operand type for unary +: '{}'"},
        {operator_function("invert"), intern("__invert__"), PyNumber_Invert, "bad operand type for unary ~: '{}'"},
    }};
  });
  return (*rows)[static_cast<size_t>(op)];
}

Value* applied(Trace& trace, Unary op, Constant* constant) {
  if (GRAMME_PYTHON_BOOL_INVERSION_WARNS && op == Unary::Invert && PyBool_Check(constant->object))
    cannot(Reason::OperatorWarns);
  return folded(trace, unary_row(op).fold(constant->object));
}
Value* applied(Trace& trace, Unary op, Tensor* tensor) {
  if (is_asked(trace, tensor))
    if (Value* result = call_by_name(trace, tensor, unary_row(op).method, {})) return result;
  refuse_replaced(trace, {tensor}, {unary_row(op).method});
  return trace.emit(unary_row(op).function, {tensor});
}
Value* applied(Trace& trace, Unary op, Number* number) { return number_unary(trace, op, number); }

}  // namespace

Value* unary(Trace& trace, Unary op, Value* operand) {
  operand = trace.see(operand);
  if (op == Unary::Not) return trace.boolean(!truth(trace, operand));
  const UnaryRow& row = unary_row(op);
  if (Value* method = own_method(trace, operand, row.method)) return call(trace, method, {});
  Value* part = builtin_part(operand);
  if (!has(part->kind, NUMERIC)) raise_about(trace, PyExc_TypeError, row.text, operand);
  return on_parts(trace, part != operand,
                  [&] { return as_kind<NUMERIC>(part, [&](auto* number) { return applied(trace, op, number); }); });
}

}  // namespace gramme::protocol
