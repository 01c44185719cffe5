#include "protocol/number.h"

#include "protocol/operator_table.h"
#include "protocol/special.h"

namespace gramme::protocol {

using namespace value;

namespace {

/// The placeholder of a number taken as dynamic from which the node was computed; null if something else is below it
/// too.
const graph::Node* dynamic_root(const graph::Node* node) {
  if (node->kind == graph::Node::Placeholder) return node->number_type ? node : nullptr;
  const graph::Node* root = nullptr;
  bool data = false;
  meta::each_leaf(node->call, [&](const meta::Argument& leaf) {
    const graph::Node* below = leaf.kind == meta::Argument::Number ? dynamic_root(leaf.node) : nullptr;
    data |= !below;
    root = below;
  });
  return data ? nullptr : root;
}

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

/// The result's type, or null where the operator is not put in the graph: then the numbers must be known.
PyTypeObject* result_type(int op, Value* left, Value* right) {
  PyTypeObject *a = numeric_type(left), *b = numeric_type(right);
  bool floats = a == &PyFloat_Type || b == &PyFloat_Type;
  bool bools = a == &PyBool_Type && b == &PyBool_Type;
  switch (op) {
    case NB_ADD:
    case NB_SUBTRACT:
    case NB_MULTIPLY:
      return floats ? &PyFloat_Type : &PyLong_Type;
    case NB_FLOOR_DIVIDE:
    case NB_REMAINDER:
      return is_zero(right) ? nullptr : floats ? &PyFloat_Type : &PyLong_Type;
    case NB_TRUE_DIVIDE:
      return is_zero(right) ? nullptr : &PyFloat_Type;
    case NB_AND:
    case NB_OR:
    case NB_XOR:
      return floats ? nullptr : bools ? &PyBool_Type : &PyLong_Type;
    case NB_POWER: {
      // A negative base under a fraction is complex, zero under a negative exponent raises.
      bool square = is_int(right) && !is_negative(right);
      bool exponential = left->kind == Kind::Constant && a == &PyFloat_Type && !is_zero(left) && !is_negative(left);
      return square ? (floats ? &PyFloat_Type : &PyLong_Type) : exponential ? &PyFloat_Type : nullptr;
    }
    default:
      return nullptr;
  }
}

bool may_divide_by_zero(int op, Value* right) {
  return right->kind == Kind::Number && (op == NB_FLOOR_DIVIDE || op == NB_REMAINDER || op == NB_TRUE_DIVIDE);
}

Owned<> example(PyObject* function, PyTypeObject* type, std::initializer_list<Value*> args) {
  std::vector<PyObject*> objects;
  for (Value* value : args) objects.push_back(value->object);
  Owned<> result = Owned<>::steal(PyObject_Vectorcall(function, objects.data(), objects.size(), nullptr));
  if (result && Py_TYPE(result.get()) == type) return result;
  PyErr_Clear();
  Owned<> one = take(PyLong_FromLong(1));
  return take(PyObject_CallOneArg(reinterpret_cast<PyObject*>(type), one.get()));
}

}  // namespace

PyObject* known_number(Trace& trace, Number* number, Reason reason) {
  if (PyObject* object = trace.constant_of(number)) return object;
  const graph::Node* root = number->node ? dynamic_root(number->node) : nullptr;
  if (root && root->source) throw trace::NeedsConstant{root->source->print()};
  cannot(reason, "a Python number computed from a tensor");
}

Value* known(Trace& trace, Value* seen, Reason reason) {
  auto* number = as<Number>(seen);
  return number ? trace.constant(known_number(trace, number, reason)) : seen;
}

Number* emit_number(Trace& trace, PyObject* function, std::initializer_list<Value*> args, PyTypeObject* type,
                    Owned<> example) {
  if (trace.graph.length() >= trace.policy.max_nodes) cannot(Reason::Budget, "too many operations");
  auto* arguments = static_cast<meta::Argument*>(trace.arena.bytes_for(sizeof(meta::Argument) * args.size()));
  size_t count = 0;
  for (Value* value : args) new (arguments + count++) meta::Argument(trace.argument(value));
  meta::Call call;
  call.target = function;
  call.args = arguments;
  call.arg_count = static_cast<uint32_t>(count);
  auto* result = trace.make<Number>();
  result->node = trace.graph.call(call, trace.inliner ? trace.inliner->position() : nullptr);
  result->node->number_type = type;
  result->type = type;
  result->object = trace.keep(std::move(example));
  return result;
}

Value* number_binary(Trace& trace, int op, Value* left, Value* right) {
  int plain = plain_operator(op);
  PyTypeObject* type = is_numeric(left) && is_numeric(right) ? result_type(plain, left, right) : nullptr;
  if (!type) return binary(trace, op, known(trace, left), known(trace, right));
  bool may_raise = may_divide_by_zero(plain, right);
  if (may_raise) trace.expect_raise();
  PyObject* function = operator_row(op).function;
  Number* result = emit_number(trace, function, {left, right}, type, example(function, type, {left, right}));
  result->node->effect = may_raise;
  return result;
}

Value* number_compare(Trace& trace, int op, Value* left, Value* right) {
  if (!is_numeric(left) || !is_numeric(right)) {
    // Only numbers equal numbers; classes of the program were asked before.
    bool equality = op == Py_EQ || op == Py_NE;
    if (equality && !is_constant_of(left, &PyComplex_Type) && !is_constant_of(right, &PyComplex_Type))
      return trace.boolean(op == Py_NE);
    return compare(trace, op, known(trace, left), known(trace, right));
  }
  PyObject* function = comparison_row(op).function;
  return emit_number(trace, function, {left, right}, &PyBool_Type, example(function, &PyBool_Type, {left, right}));
}

Value* number_unary(Trace& trace, Unary op, Number* operand) {
  static PyObject* const negative = operator_function("neg");
  static PyObject* const positive = operator_function("pos");
  static PyObject* const invert = operator_function("invert");
  if (op == Unary::Invert && operand->type == &PyFloat_Type) return unary(trace, op, known(trace, operand));
  PyObject* function = op == Unary::Negative ? negative : op == Unary::Positive ? positive : invert;
  PyTypeObject* type = operand->type == &PyFloat_Type ? &PyFloat_Type : &PyLong_Type;
  return emit_number(trace, function, {operand}, type, example(function, type, {operand}));
}

}  // namespace gramme::protocol
