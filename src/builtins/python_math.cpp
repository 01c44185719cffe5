// The module math.
#include <opcode.h>

#include <string_view>

#include "base/once.h"
#include "builtins/python_support.h"
#include "protocol/data_numbers.h"
#include "protocol/number.h"
#include "torch/names.h"

namespace gramme::builtins {
namespace {

using value::Kind;

/// math.prod of any numbers, tensors too.
Value* product(Trace& trace, const Args& args) {
  auto [iterable, start] = bind(args, 1, {"", "start"});
  Value* total = start ? start : trace.integer(1);
  Value* iterator = protocol::get_iterator(trace, iterable);
  while (Value* item = protocol::next(trace, iterator)) total = protocol::binary(trace, NB_MULTIPLY, total, item);
  return total;
}

auto rounding_of(std::string_view function) -> shape::Expr (*)(shape::Expr) {
  return function == "floor" ? shape::floor : function == "ceil" ? shape::ceil : shape::truncate;
}

protocol::Whole whole_by(std::string_view function) {
  using protocol::Whole;
  return function == "floor" ? Whole::Floor : function == "ceil" ? Whole::Ceil : Whole::Truncate;
}

/// math.floor, ceil, trunc: a method of the class, else the real function.
template <Text function, Text method>
Value* rounding(Trace& trace, const Args& args) {
  static PyObject* const kMethod = intern(method.text);
  PyObject* const real_function = once([] { return real("math", function.text); });
  auto [number] = positional<1>(args, 1);
  Value* seen = trace.see(number);
  if (seen->kind == Kind::Tensor) cannot(Reason::DataDependentValue, function.text);
  if (Value* result = call_special(trace, seen, kMethod)) return result;
  if (auto* rounded = symbolic_number(seen)) {
    if (rounded->type == &PyLong_Type) return rounded;
    if (Value* result = protocol::number_by(trace, rounding_of(function.text)(rounded->expr), real_function, rounded))
      return result;
  }
  if (protocol::is_data_float(trace, seen))
    return protocol::data_whole(trace, whole_by(function.text), static_cast<value::Number*>(seen));
  return fold_or_stop(trace, real_function, args, function.text);
}

/// math.sqrt; of an expression over symbols it is an expression, if it cannot raise.
Value* square_root(Trace& trace, const Args& args) {
  PyObject* const function = once([] { return real("math", "sqrt"); });
  PyObject* const sym_sqrt = of_torch::object(of_torch::SymSqrt);
  auto* number = args.positional == 1 && !args.keywords ? symbolic_number(trace.see(args[0])) : nullptr;
  if (args.positional == 1 && !args.keywords)
    if (Value* root = protocol::number_root(trace, function, trace.see(args[0]))) return root;
  const shape::Expr e = number ? shape::to_float(number->expr) : nullptr;
  const shape::Expr has_root = e ? at_least(e, shape::float_constant(0)) : nullptr;
  if (has_root && trace.decide(has_root))
    if (Value* root = protocol::number_by(trace, shape::square_root(e), sym_sqrt, number)) return root;
  if (args.positional && trace.see(args[0])->kind == Kind::Tensor) cannot(Reason::DataDependentValue, "math.sqrt");
  if (args.positional == 1 && !args.keywords)
    if (Value* result = protocol::data_root(trace, trace.see(args[0]))) return result;
  if (Value* result = protocol::data_function(trace, function, args, &PyFloat_Type)) return result;
  return fold_or_stop(trace, function, args, "sqrt");
}

/// The type that the function returns; null if that is not a single number.
PyTypeObject* type_by(std::string_view function) {
  if (function == "frexp" || function == "modf") return nullptr;
  return function.starts_with("is") ? &PyBool_Type : &PyFloat_Type;
}

/// A function that converts its argument to float.
template <Text function>
Value* of_float(Trace& trace, const Args& args) {
  PyObject* const real_function = once([] { return real("math", function.text); });
  for (size_t i = 0; i < args.positional; ++i)
    if (trace.see(args[i])->kind == Kind::Tensor)
      cannot(Reason::DataDependentValue, std::string("math.") + function.text);
  if (args.positional == 1 && !args.keywords && protocol::is_data_float(trace, trace.see(args[0]))) {
    if (std::string_view(function.text) == "fabs") return protocol::data_absolute(trace, trace.see(args[0]));
    if (std::string_view(function.text) == "isnan") return protocol::compare(trace, Py_NE, args[0], args[0]);
  }
  if (PyTypeObject* type = type_by(function.text))
    if (Value* result = protocol::data_function(trace, real_function, args, type)) return result;
  return fold_or_stop(trace, real_function, args, function.text);
}

/// math.pow; in the graph where it cannot raise.
Value* power(Trace& trace, const Args& args) {
  PyObject* const function = once([] { return real("math", "pow"); });
  if (args.positional == 2 && !args.keywords)
    if (Value* made = protocol::number_power(trace, function, trace.see(args[0]), trace.see(args[1]))) return made;
  return of_float<"pow">(trace, args);
}

}  // namespace

void register_math() {
  add_pure("math", {"comb", "dist", "fsum", "gcd", "lcm", "isqrt", "perm", "factorial", "ulp", "nextafter"});
  add_rows("math", Takes::Asked,
           {
               {"prod", &product},
               {"floor", &rounding<"floor", "__floor__">},
               {"ceil", &rounding<"ceil", "__ceil__">},
               {"trunc", &rounding<"trunc", "__trunc__">},
           });
#define FLOAT(name) {#name, &of_float<#name>}
  add_rows("math", Takes::Plain, {{"sqrt", &square_root}, {"pow", &power}});
  // clang-format off: one row per line would take two pages
  add_rows("math", Takes::Plain, {
      FLOAT(acos), FLOAT(acosh), FLOAT(asin), FLOAT(asinh), FLOAT(atan), FLOAT(atan2), FLOAT(atanh), FLOAT(cbrt),
      FLOAT(copysign), FLOAT(cos), FLOAT(cosh), FLOAT(degrees), FLOAT(erf), FLOAT(erfc), FLOAT(exp), FLOAT(exp2),
      FLOAT(expm1), FLOAT(fabs), FLOAT(fmod), FLOAT(frexp), FLOAT(gamma), FLOAT(hypot), FLOAT(isclose), FLOAT(isfinite),
      FLOAT(isinf), FLOAT(isnan), FLOAT(ldexp), FLOAT(lgamma), FLOAT(log), FLOAT(log10), FLOAT(log1p), FLOAT(log2),
      FLOAT(modf), FLOAT(radians), FLOAT(remainder), FLOAT(sin), FLOAT(sinh), FLOAT(tan),
      FLOAT(tanh),
  });
  // clang-format on
#undef FLOAT
}

}  // namespace gramme::builtins
