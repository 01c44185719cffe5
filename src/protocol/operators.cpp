// Unary and binary operators: constants are folded, tensors go to the graph, classes of the program are asked.

#include "base/once.h"
#include "cpython/concrete.h"
#include "protocol/combine.h"
#include "protocol/number.h"
#include "protocol/operator_table.h"
#include "protocol/percent.h"
#include "protocol/special.h"
#include "protocol/tensors.h"

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

/// Work that would be done twice, or never end: left to the program.
bool too_large(int op, PyObject* left, PyObject* right) {
  constexpr size_t kLimit = 1'000'000;
  auto factor = [](PyObject* object) {
    if (!PyLong_CheckExact(object)) return size_t{1};
    size_t n = PyLong_AsSize_t(object);
    if (n == static_cast<size_t>(-1) && PyErr_Occurred()) {
      PyErr_Clear();
      return Py_SIZE(object) < 0 ? size_t{1} : kLimit + 1;
    }
    return n;
  };
  switch (plain_operator(op)) {
    case NB_POWER:
      return PyLong_CheckExact(left) && PyLong_CheckExact(right) && weight(left) > 1 &&
             weight(left) * factor(right) > kLimit;
    case NB_LSHIFT:
      return PyLong_CheckExact(left) && Py_SIZE(left) != 0 && factor(right) > kLimit;
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

/// The method that torch function modes see, where the operator is just that.
Value* seen_by_modes(Trace& trace, int op, Value* left, Value* right) {
  const char* name = op == NB_ADD ? "add" : op == NB_SUBTRACT ? "sub" : op == NB_MULTIPLY ? "mul" : nullptr;
  if (!name || left->kind != Kind::Tensor) cannot(Reason::CallUnknown, "an operator that a torch function mode sees");
  return call(trace, trace.pinned(trace.type_lookup(type_of(left), intern(name))), {left, right});
}

Value* tensor_binary(Trace& trace, int op, Value* left, Value* right) {
  if (!trace.scope().function_modes().empty()) return seen_by_modes(trace, op, left, right);
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

/// A subclass that overrides the reflected method comes first.
bool reflected_first(Trace& trace, Value* left, Value* right, PyObject* reflected) {
  PyTypeObject *a = type_of(left), *b = type_of(right);
  return a != b && PyType_IsSubtype(b, a) && trace.type_lookup(a, reflected) != trace.type_lookup(b, reflected);
}

bool is_frozen(Value* seen) {
  auto* set = as<Set>(seen);
  return set && set->frozen;
}

/// Does the method of the left operand's own type, in C, take what the right operand holds? Then it is not asked.
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

/// What the classes' own methods answer; null if none has one or all return NotImplemented.
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

/// Operands without methods of their own. Null if they do not go together.
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

/// An operator that all numbers in C have, or all sets.
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

Value* binary(Trace& trace, int op, Value* left, Value* right) {
  left = trace.see(left);
  right = trace.see(right);
  if (left->kind == Kind::Constant && right->kind == Kind::Constant)
    return fold_binary(trace, op, left->object, right->object);
  bool formats = plain_operator(op) == NB_REMAINDER && is_text(left);
  bool in_place =
      op == NB_INPLACE_ADD && payload_for(trace, left, operator_row(op).in_place_method);  // list subclasses first
  for (Value* operand : {left, right})
    if (auto* held = payload_of(operand); held && held->kind == Kind::Deque)
      cannot(Reason::ArgumentKind, "an operator of a deque's subclass");
  if (op == NB_INPLACE_OR && left->kind == Kind::Dict && has_own_class(right)) {  // dict's method comes first
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
  Value* result = builtin_binary(trace, op, {a, b, type_name(left), type_name(right)});
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

}  // namespace

Value* unary(Trace& trace, Unary op, Value* operand) {
  operand = trace.see(operand);
  if (op == Unary::Not) return trace.boolean(!truth(trace, operand));
  const UnaryRow& row = unary_row(op);
  if (Value* method = own_method(trace, operand, row.method)) return call(trace, method, {});
  Value* part = builtin_part(operand);
  switch (part->kind) {
    case Kind::Constant:
      return folded(trace, row.fold(part->object));
    case Kind::Tensor:
      refuse_replaced(trace, {part}, {row.method});
      return trace.emit(row.function, {part});
    case Kind::Number:
      return number_unary(trace, op, static_cast<Number*>(part));
    case Kind::Lazy:
    case Kind::Tuple:
    case Kind::List:
    case Kind::Dict:
    case Kind::Set:
    case Kind::Deque:
    case Kind::Slice:
    case Kind::View:
    case Kind::Iterator:
    case Kind::Generator:
    case Kind::Function:
    case Kind::Cell:
    case Kind::Method:
    case Kind::Builtin:
    case Kind::BuiltinMethod:
    case Kind::Class:
    case Kind::Module:
    case Kind::Namespace:
    case Kind::Object:
    case Kind::InstanceDict:
    case Kind::Partial:
    case Kind::Super:
    case Kind::Null:
      raise_about(trace, PyExc_TypeError, row.text, operand);
  }
  GRAMME_BUG("a value of no kind");
}

// ---- truth

namespace {

Value* user_truth(Trace& trace, Value* operand, PyObject* name) {
  Value* method = own_method(trace, operand, name);
  if (!method) return nullptr;
  Value* result = trace.see(call(trace, method, {}));
  if (result->kind == Kind::Number && static_cast<Number*>(result)->type == &PyBool_Type)
    result = known(trace, result, Reason::DataDependentBranch);
  if (!is_constant_of(result, &PyBool_Type))
    raise_about(trace, PyExc_TypeError, "__bool__ should return bool, returned {}", result);
  return result;
}

/// Objects, and classes with a metaclass: __bool__, then __len__, then true.
bool object_truth(Trace& trace, Value* operand) {
  static PyObject* const bool_name = intern("__bool__");
  static PyObject* const len_name = intern("__len__");
  if (Value* result = user_truth(trace, operand, bool_name)) return result->object == Py_True;
  if (Value* payload = payload_for(trace, operand, bool_name)) return truth(trace, payload);
  if (own_method(trace, operand, len_name) || payload_for(trace, operand, len_name)) return length(trace, operand) != 0;
  return operand->kind != Kind::Tuple || !static_cast<Tuple*>(operand)->items.empty();
}

}  // namespace

bool truth(Trace& trace, Value* operand) {
  operand = trace.see(operand);
  if (has_own_class(operand)) return object_truth(trace, operand);
  switch (operand->kind) {
    case Kind::Constant: {
      int result = PyObject_IsTrue(operand->object);
      if (result < 0) raise_current(trace);
      return result == 1;
    }
    case Kind::Number:
      return check(PyObject_IsTrue(known_number(trace, static_cast<Number*>(operand), Reason::DataDependentBranch))) ==
             1;
    case Kind::Tensor:
      cannot(Reason::DataDependentBranch, "the truth of a tensor");
    case Kind::Tuple:
    case Kind::List:
    case Kind::Dict:
    case Kind::Set:
    case Kind::Deque:
    case Kind::View:
    case Kind::InstanceDict:
      return length(trace, operand) != 0;
    case Kind::Null:
      GRAMME_BUG("the truth of a stack slot without a value");
    case Kind::Lazy:
    case Kind::Slice:
    case Kind::Iterator:
    case Kind::Generator:
    case Kind::Function:
    case Kind::Cell:
    case Kind::Method:
    case Kind::Builtin:
    case Kind::BuiltinMethod:
    case Kind::Class:
    case Kind::Module:
    case Kind::Namespace:
    case Kind::Object:
    case Kind::Partial:
    case Kind::Super:
      return true;
  }
  GRAMME_BUG("a value of no kind");
}

// ---- identity

namespace {

/// Objects of which there is one for each value, or that are guarded by identity anyway.
bool is_unique(PyObject* object) {
  if (object == Py_None || PyBool_Check(object) || object == Py_Ellipsis || object == Py_NotImplemented) return true;
  if (PyLong_CheckExact(object)) {
    int overflow = 0;
    long n = PyLong_AsLongAndOverflow(object, &overflow);
    return !overflow && n >= -5 && n <= 256;
  }
  return !(PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyUnicode_CheckExact(object) ||
           PyBytes_CheckExact(object) || PyComplex_CheckExact(object) || Py_TYPE(object) == &PyRange_Type);
}

/// Constants are guarded by value: their identity needs a guard of its own.
bool same_constants(Trace& trace, Value* left, Value* right) {
  bool result = left->object == right->object;
  if (is_unique(left->object) || is_unique(right->object) || Py_TYPE(left->object) != Py_TYPE(right->object) ||
      left == right)
    return result;
  if (left->source && right->source) {
    guards::Fact fact{left->source, result ? guards::Kind::SameAs : guards::Kind::NotSameAs, {}};
    fact.other = right->source;
    trace.guard(std::move(fact));
  } else if (result && (left->source || right->source)) {
    trace.guard({left->source ? left->source : right->source, guards::Kind::Identity, share(left->object)});
  }
  return result;
}

}  // namespace

bool same(Trace& trace, Value* left, Value* right) {
  left = trace.see(left);
  right = trace.see(right);
  if (left == right) return true;
  for (Value* side : {left, right})
    if (auto* number = as<Number>(side)) known_number(trace, number, Reason::DataDependentValue);
  if (left->kind != right->kind) return false;
  switch (left->kind) {
    case Kind::Constant:
      return same_constants(trace, left, right);
    case Kind::Class:
    case Kind::Module:
    case Kind::Builtin:
    case Kind::Namespace:
      return left->object == right->object;
    case Kind::Tuple: {
      auto *a = static_cast<Tuple*>(left), *b = static_cast<Tuple*>(right);  // () is one object
      bool empty = a->items.empty() && b->items.empty();
      if (empty && a->type == &PyTuple_Type && b->type == &PyTuple_Type) return true;
      return trace.same(left, right);
    }
    case Kind::Lazy:
    case Kind::Tensor:
    case Kind::Number:
    case Kind::List:
    case Kind::Dict:
    case Kind::Set:
    case Kind::Deque:
    case Kind::Slice:
    case Kind::View:
    case Kind::Iterator:
    case Kind::Generator:
    case Kind::Function:
    case Kind::Cell:
    case Kind::Method:
    case Kind::BuiltinMethod:
    case Kind::Object:
    case Kind::InstanceDict:
    case Kind::Partial:
    case Kind::Super:
    case Kind::Null:
      return trace.same(left, right);
  }
  GRAMME_BUG("a value of no kind");
}

}  // namespace gramme::protocol
