// A table from shape operations to objects of the modules operator and torch.
#include "meta/functions.h"

#include <array>

#include "base/error.h"
#include "base/imported.h"
#include "base/once.h"
#include "torch/names.h"

namespace gramme::meta {

NumberFunction function_for(shape::Operation operation) {
  using Table = std::array<NumberFunction, 64>;
  const Table* const table = once([] {
    auto* made = new Table;
    auto add = [&](shape::Operation op, const char* module, const char* name, PyTypeObject* type) {
      (*made)[static_cast<size_t>(op)] = {imported(module, name).release(), type};
    };
    using Op = shape::Operation;
    PyTypeObject *const whole = &PyLong_Type, *const real = &PyFloat_Type, *const truth = &PyBool_Type;
    add(Op::Add, "_operator", "add", whole);
    add(Op::Subtract, "_operator", "sub", whole);
    add(Op::Multiply, "_operator", "mul", whole);
    add(Op::FloorDivide, "_operator", "floordiv", whole);
    add(Op::Modulo, "_operator", "mod", whole);
    add(Op::Minimum, "torch", "sym_min", whole);
    add(Op::Maximum, "torch", "sym_max", whole);
    add(Op::Truncate, "torch", "sym_int", whole);
    add(Op::Floor, "math", "floor", whole);
    add(Op::Ceil, "math", "ceil", whole);
    add(Op::Round, "builtins", "round", whole);
    add(Op::ToFloat, "torch", "sym_float", real);
    add(Op::FloatAdd, "_operator", "add", real);
    add(Op::FloatMultiply, "_operator", "mul", real);
    add(Op::FloatDivide, "_operator", "truediv", real);
    add(Op::FloatPower, "_operator", "pow", real);
    add(Op::SquareRoot, of_torch::place(of_torch::SymSqrt).where, of_torch::place(of_torch::SymSqrt).name, real);
    add(Op::AtMost, "_operator", "le", truth);
    add(Op::AtLeast, "_operator", "ge", truth);
    add(Op::Equal, "_operator", "eq", truth);
    add(Op::NotEqual, "_operator", "ne", truth);
    add(Op::FloatLess, "_operator", "lt", truth);
    add(Op::FloatAtMost, "_operator", "le", truth);
    add(Op::FloatEqual, "_operator", "eq", truth);
    add(Op::FloatNotEqual, "_operator", "ne", truth);
    add(Op::And, "_operator", "and_", truth);
    add(Op::Or, "_operator", "or_", truth);
    return made;
  });
  const NumberFunction& found = table->at(static_cast<size_t>(operation));
  if (!found.function) GRAMME_BUG("an operation that graphs do not have");
  return found;
}

}  // namespace gramme::meta
