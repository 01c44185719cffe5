// Numbers: int, float, bool, complex and their methods, abs, round, divmod, pow, sum, min, max.
#include <opcode.h>

#include <string_view>

#include "base/once.h"
#include "builtins/python_sum.h"
#include "builtins/python_support.h"
#include "protocol/answers.h"
#include "protocol/data_numbers.h"
#include "protocol/number.h"
#include "protocol/special.h"
#include "protocol/tensors.h"

namespace gramme::builtins {
namespace {

using value::Kind;

using protocol::Answer;

// ---- constructors

/// The number in an instance of a subclass of int or float (IntEnum), if its class inherits the conversion.
Value* plain_number(Trace& trace, Value* seen, PyTypeObject* base, PyObject* method) {
  auto* object = value::as<value::Object>(seen);
  if (!object || !object->payload || !PyType_IsSubtype(object->type, base)) return nullptr;
  bool own = trace.type_lookup(object->type, method) != trace.type_lookup(base, method);
  return own ? nullptr : trace.see_as<value::Constant>(object->payload);
}

/// int(x) and float(x) of a number with an expression.
Value* convert_symbolic(Trace& trace, value::Number* number, PyTypeObject* type) {
  PyObject* const sym_int = once([] { return real("torch", "sym_int"); });
  PyObject* const sym_float = once([] { return real("torch", "sym_float"); });
  if (type == &PyLong_Type) return protocol::number_by(trace, shape::truncate(number->expr), sym_int, number);
  Value* made = protocol::number_by(trace, shape::to_float(number->expr), sym_float, number);
  if (auto* floating = value::as<value::Number>(made); floating && floating->type == &PyFloat_Type)
    floating->range = protocol::range_of(number);
  return made;
}

/// The same for a data-dependent number.
Value* converted_data(Trace& trace, value::Number* number, PyTypeObject* type) {
  PyObject* const sym_ite = once([] { return real("torch", "sym_ite"); });
  if (number->type == type) return number;
  if (number->type == &PyFloat_Type && type == &PyLong_Type)
    return protocol::data_whole(trace, protocol::Whole::Truncate, number);
  if (number->type == &PyBool_Type && type == &PyLong_Type)
    return trace.scope().emit_whole(sym_ite, {number, trace.integer(1), trace.integer(0)}, {0, 1});
  cannot(Reason::DataDependentValue, std::string(type->tp_name) + "() of a tensor");
}

/// The value as a number without expression that graphs may compute with; else null.
value::Number* data_number(Trace& trace, Value* seen) {
  auto* number = value::as<value::Number>(seen);
  return number && trace.data.scalars && trace.scope().is_data(number) ? number : nullptr;
}

/// int(x) and float(x) with one argument: of a constant, or by the methods of x's class.
Value* convert(Trace& trace, PyTypeObject* type, PyObject* method, Answer which, const Args& args) {
  static PyObject* const kIndex = intern("__index__");
  Value* seen = trace.see(args[0]);
  if (auto* tensor = value::as<value::Tensor>(seen)) {
    const bool warns = type == &PyFloat_Type && trace.scope().requires_grad(tensor);
    if (warns && trace.contract.breaks) cannot(Reason::OperatorWarns);
    Value* item = trace.see(protocol::item(trace, tensor, std::string(type->tp_name) + "() of a tensor"));
    if (auto* number = value::as<value::Number>(item); number && trace.scope().is_data(number))
      return converted_data(trace, number, type);
    seen = item;
  }
  if (auto* number = value::as<value::Number>(seen); number && number->type == type) return number;
  if (auto* number = data_number(trace, seen)) return converted_data(trace, number, type);
  if (auto* number = symbolic_number(seen))
    if (Value* converted = convert_symbolic(trace, number, type)) return converted;
  if (Value* plain = plain_number(trace, seen, type, method)) return plain;
  if (Value* result = call_special(trace, seen, method)) return protocol::checked_answer(trace, which, result);
  if (Value* result = call_special(trace, seen, kIndex)) {
    result = protocol::checked_answer(trace, Answer::of_index, result);
    if (type == &PyLong_Type) return result;
    return protocol::call(trace, trace.pinned(reinterpret_cast<PyObject*>(type)), {result});
  }
  return fold_or_stop(trace, reinterpret_cast<PyObject*>(type), args, type->tp_name);
}

Value* make_int(Trace& trace, const Args& args) {
  static PyObject* const kInt = intern("__int__");
  if (args.positional == 1 && !args.keywords) return convert(trace, &PyLong_Type, kInt, Answer::of_int, args);
  return fold_or_stop(trace, reinterpret_cast<PyObject*>(&PyLong_Type), args, "int");
}

Value* make_float(Trace& trace, const Args& args) {
  static PyObject* const kFloat = intern("__float__");
  if (args.positional == 1 && !args.keywords) return convert(trace, &PyFloat_Type, kFloat, Answer::of_float, args);
  return fold_or_stop(trace, reinterpret_cast<PyObject*>(&PyFloat_Type), args, "float");
}

Value* make_bool(Trace& trace, const Args& args) {
  auto [object] = positional<1>(args, 0);
  if (auto* tensor = object ? trace.see_as<value::Tensor>(object) : nullptr; tensor && trace.data.scalars) {
    auto* item = trace.see_as<value::Number>(protocol::item(trace, tensor, "bool() of a tensor"));
    if (item && item->type == &PyBool_Type) return item;
  }
  if (auto* number = object ? data_number(trace, trace.see(object)) : nullptr)
    return number->type == &PyBool_Type ? number : protocol::compare(trace, Py_NE, number, trace.integer(0));
  return trace.boolean(object && protocol::truth(trace, object));
}

Value* make_complex(Trace& trace, const Args& args) {
  for (size_t i = 0; i < args.positional; ++i)
    if (trace.see(args[i])->kind == Kind::Tensor) cannot(Reason::DataDependentValue, "complex() of a tensor");
  return fold_or_stop(trace, reinterpret_cast<PyObject*>(&PyComplex_Type), args, "complex");
}

// ---- arithmetic

Value* absolute(Trace& trace, const Args& args) {
  static PyObject* const kAbs = intern("__abs__");
  PyObject* const operator_abs = once([] { return real("operator", "abs"); });
  auto [object] = positional<1>(args, 1);
  Value* seen = trace.see(object);
  protocol::refuse_replaced(trace, {seen}, {kAbs});
  if (seen->kind == Kind::Tensor) return trace.emit(operator_abs, {seen});
  if (Value* result = call_special(trace, seen, kAbs)) return result;
  if (auto* number = symbolic_number(seen); number && number->type == &PyLong_Type) {
    const shape::Expr magnitude = maximum(number->expr, negate(number->expr));
    if (Value* made = protocol::number_by(trace, magnitude, operator_abs, number)) return made;
    return trace.decide(at_least(number->expr, shape::constant(0)))
               ? number
               : protocol::unary(trace, protocol::Unary::Negative, number);
  }
  if (Value* result = protocol::data_absolute(trace, seen)) return result;
  return fold_or_stop(trace, operator_abs, args, "abs");
}

Value* round_number(Trace& trace, const Args& args) {
  static PyObject* const kRound = intern("__round__");
  PyObject* const real_round = once([] { return real("builtins", "round"); });
  auto [number, digits] = bind(args, 1, {"number", "ndigits"});
  Value* seen = trace.see(number);
  Value* result =
      is_none(trace, digits) ? call_special(trace, seen, kRound) : call_special(trace, seen, kRound, {digits});
  if (auto* rounded = result ? nullptr : symbolic_number(seen); rounded && is_none(trace, digits)) {
    if (rounded->type == &PyLong_Type) return rounded;
    result = protocol::number_by(trace, shape::round(rounded->expr), kRound, rounded);
  }
  if (!result && protocol::is_data_float(trace, seen)) {
    if (is_none(trace, digits)) return protocol::data_whole(trace, protocol::Whole::Round, data_number(trace, seen));
    result = protocol::data_function(trace, real_round, args, &PyFloat_Type);
  }
  return result ? result : fold_or_stop(trace, real_round, args, "round");
}

Value* divide_with_remainder(Trace& trace, const Args& args) {
  static PyObject *const kDivmod = intern("__divmod__"), *const kReflected = intern("__rdivmod__");
  PyObject* const real_divmod = once([] { return real("builtins", "divmod"); });
  auto [left, right] = positional<2>(args, 2);
  Value *divided = trace.see(left), *divisor = trace.see(right);
  PyTypeObject *type = protocol::type_of(divided), *refined = protocol::type_of(divisor);
  bool asked_first = type != refined && trace.is_subtype(refined, type);
  if (asked_first && protocol::own_method(trace, divisor, kReflected))
    cannot(Reason::ArgumentKind, std::string("divmod() by a ") + type_name(divisor));
  if (Value* result = call_special(trace, divided, kDivmod, {divisor})) {
    result = trace.see(result);
    if (result->kind != Kind::Constant || result->object != Py_NotImplemented) return result;
    cannot(Reason::ArgumentKind, std::string("divmod() that a ") + type_name(divided) + " does not implement");
  }
  const bool varies = symbolic_number(divided) || symbolic_number(divisor);
  if (varies || protocol::is_data_float(trace, divided) || protocol::is_data_float(trace, divisor))
    return trace.tuple({protocol::binary(trace, NB_FLOOR_DIVIDE, divided, divisor),
                        protocol::binary(trace, NB_REMAINDER, divided, divisor)});
  return fold_or_stop(trace, real_divmod, args, "divmod");
}

Value* power(Trace& trace, const Args& args) {
  PyObject* const real_pow = once([] { return real("builtins", "pow"); });
  auto [base, exponent, modulus] = bind(args, 2, {"base", "exp", "mod"});
  if (is_none(trace, modulus)) return protocol::binary(trace, NB_POWER, base, exponent);
  return fold_or_stop(trace, real_pow, args, "pow");
}

// ---- min and max; op is Py_GT for max, Py_LT for min

/// min() or max() of constants, by Python itself; null if some item is no constant.
Value* extreme_constant(Trace& trace, PyObject* function, const std::vector<Value*>& items) {
  if (items.size() < 2) return nullptr;
  Owned<> objects = take(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; i < items.size(); ++i) {
    Value* seen = trace.see(items[i]);
    if (seen->kind != Kind::Constant) return nullptr;
    PyTuple_SET_ITEM(objects.get(), static_cast<Py_ssize_t>(i), Py_NewRef(seen->object));
  }
  Owned<> best = call_real(trace, function, {objects.get()});
  for (Value* item : items)
    if (trace.see(item)->object == best.get()) return trace.see(item);
  GRAMME_BUG("the extreme item is none of the items");
}

/// The extreme of ints that are expressions, as one expression; null if there are other items.
template <int op>
Value* extreme_number(Trace& trace, const std::vector<Value*>& items) {
  PyObject* const function = once([] { return real("torch", op == Py_GT ? "sym_max" : "sym_min"); });
  Value* best = nullptr;
  bool varies = false;
  for (Value* item : items) {
    Value* seen = trace.see(item);
    const shape::Expr e = protocol::type_of(seen) == &PyLong_Type ? protocol::expression_of(seen) : nullptr;
    if (!e) return nullptr;
    varies |= seen->kind == Kind::Number;
  }
  if (!varies) return nullptr;
  for (Value* item : items) {
    Value* seen = trace.see(item);
    if (!best) {
      best = seen;
      continue;
    }
    const shape::Expr a = protocol::expression_of(best), b = protocol::expression_of(seen);
    best = protocol::number_by(trace, op == Py_GT ? maximum(a, b) : minimum(a, b), function, best, seen);
    if (!best) return nullptr;
  }
  return best;
}

/// True if an optimizer computes with varying numbers and graphs run as they are.
bool computes_for_optimizer(Trace& trace) {
  return trace::is_in_optimizer(trace.inliner) || trace.numbers.has_of_optimizer();
}

/// The extreme of floats known only in the graph; null if there are other items.
template <int op>
Value* extreme_float(Trace& trace, PyObject* function, const std::vector<Value*>& items) {
  auto* const extreme = computes_for_optimizer(trace) ? &protocol::number_extreme : &protocol::data_extreme;
  Value* best = trace.see(items.front());
  for (size_t i = 1; best && i < items.size(); ++i) best = extreme(trace, op, function, best, trace.see(items[i]));
  return items.size() > 1 ? best : nullptr;
}

template <int op>
Value* extreme_item(Trace& trace, const std::vector<Value*>& items, Value* key) {
  Value *best = nullptr, *best_key = nullptr;
  for (Value* item : items) {
    Value* candidate = key ? protocol::call(trace, key, {item}) : item;
    if (!best) {
      best = item;
      best_key = candidate;
      continue;
    }
    Value *a = trace.see(best_key), *b = trace.see(candidate);
    // PyTorch's front end uses clamp or maximum, which differ from Python's result
    if (a->kind == Kind::Tensor || b->kind == Kind::Tensor)
      cannot(Reason::DataDependentBranch, "min() or max() of tensors");
    if (protocol::truth(trace, protocol::compare(trace, op, b, a))) {
      best = item;
      best_key = candidate;
    }
  }
  return best;
}

/// Raises CPython's error for an empty iterable.
[[noreturn]] void raise_of_nothing(Trace& trace, PyObject* function) {
  const Owned<> nothing = take(PyTuple_New(0));
  Owned<>::steal(PyObject_CallOneArg(function, nothing.get()));
  protocol::raise_current(trace);
}

template <int op>
Value* extreme(Trace& trace, const Args& args) {
  PyObject* const function = once([] { return real("builtins", op == Py_GT ? "max" : "min"); });
  Value *key = args.keyword("key"), *missing = args.keyword("default");
  size_t known = (key != nullptr) + (missing != nullptr);
  if (args.keywords != known || args.positional == 0 || (missing && args.positional > 1))
    cannot(Reason::ArgumentKind, "arguments that min() and max() refuse");
  if (is_none(trace, key)) key = nullptr;
  std::vector<Value*> items = args.positional == 1 ? protocol::items_of(trace, protocol::get_iterator(trace, args[0]))
                                                   : std::vector<Value*>(args.values, args.values + args.positional);
  if (items.empty() && missing) return missing;
  if (items.empty()) raise_of_nothing(trace, function);
  if (!key)
    if (Value* constant = extreme_constant(trace, function, items)) return constant;
  if (!key)
    if (Value* number = extreme_number<op>(trace, items)) return number;
  if (!key && (computes_for_optimizer(trace) || trace.data.scalars))
    if (Value* number = extreme_float<op>(trace, function, items)) return number;
  return extreme_item<op>(trace, items, key);
}

/// hex, oct and bin of the int returned by `__index__`.
template <Text function>
Value* digits(Trace& trace, const Args& args) {
  static PyObject* const kIndex = intern("__index__");
  PyObject* const real_function = once([] { return real("builtins", function.text); });
  auto [number] = positional<1>(args, 1);
  Value* seen = trace.see(number);
  Value* held = protocol::extends(seen, &PyLong_Type) ? protocol::payload_of(seen) : nullptr;
  Value* as_int = held ? held : call_special(trace, seen, kIndex);
  if (as_int && !held) as_int = protocol::checked_answer(trace, Answer::of_index, as_int);
  Value* values[] = {as_int ? as_int : number};
  return fold_or_stop(trace, real_function, {values, 1, nullptr, 0}, function.text);
}

}  // namespace

Value* call_special(Trace& trace, Value* object, PyObject* method, std::initializer_list<Value*> args) {
  Value* bound = object->kind == Kind::Object ? protocol::special_method(trace, object, method) : nullptr;
  return bound ? protocol::call(trace, bound, args) : nullptr;
}

value::Number* symbolic_number(Value* seen) {
  auto* number = value::as<value::Number>(seen);
  return number && number->expr && number->type != &PyBool_Type ? number : nullptr;
}

void register_numbers() {
  add_rows("builtins", Takes::Asked,
           {
               {"int", &make_int},
               {"float", &make_float},
               {"bool", &make_bool},
               {"complex", &make_complex},
               {"abs", &absolute},
               {"round", &round_number},
               {"divmod", &divide_with_remainder},
               {"pow", &power},
               {"sum", &sum},
               {"max", &extreme<Py_GT>},
               {"min", &extreme<Py_LT>},
           });
  for (PyTypeObject* type : {&PyLong_Type, &PyBool_Type, &PyFloat_Type, &PyComplex_Type}) add_pure_methods(type);
  add_rows("builtins", Takes::Plain, {{"bin", &digits<"bin">}, {"hex", &digits<"hex">}, {"oct", &digits<"oct">}});
  add_rows("operator", Takes::Asked, {{"abs", &absolute}});
}

}  // namespace gramme::builtins
