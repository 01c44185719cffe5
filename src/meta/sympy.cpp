// A table from class names of sympy and torch.utils._sympy to functions on expressions.
#include "meta/sympy.h"

#include <cstring>
#include <string_view>
#include <unordered_map>

#include "base/ref.h"

namespace gramme::meta {
namespace {

using shape::Expr;

struct Function {
  Expr (*of_one)(Expr) = nullptr;
  Expr (*of_two)(Expr, Expr) = nullptr;
  bool of_many = false;  // n-ary, folded from the left
};

Expr ceil_divide(Expr a, Expr b) { return negate(floor_divide(negate(a), b)); }

/// The function for a class name of sympy, or of torch.utils._sympy.functions, whose divisions are Python's.
const Function* function_of(std::string_view name) {
  using namespace shape;
  static const auto& known = *new std::unordered_map<std::string_view, Function>{
      // no Python
      {"Add", {nullptr, add, true}},
      {"Mul", {nullptr, multiply, true}},
      {"Max", {nullptr, maximum, true}},
      {"Min", {nullptr, minimum, true}},
      {"And", {nullptr, both, true}},
      {"Or", {nullptr, either, true}},
      {"Not", {negation}},
      {"Pow", {nullptr, power}},
      {"PowByNatural", {nullptr, power}},
      {"FloorDiv", {nullptr, floor_divide}},
      {"CleanDiv", {nullptr, floor_divide}},
      {"CeilDiv", {nullptr, ceil_divide}},
      {"Mod", {nullptr, modulo}},
      {"PythonMod", {nullptr, modulo}},
      {"Equality", {nullptr, equal}},
      {"Unequality", {nullptr, not_equal}},
      {"StrictLessThan", {nullptr, less}},
      {"LessThan", {nullptr, at_most}},
      {"StrictGreaterThan", {nullptr, greater}},
      {"GreaterThan", {nullptr, at_least}},
      {"ToFloat", {to_float}},
      {"IntTrueDiv", {nullptr, true_divide}},
      {"FloatTrueDiv", {nullptr, true_divide}},
      {"FloatPow", {nullptr, power}},
      {"OpaqueUnaryFn_sqrt", {square_root}},
      {"TruncToInt", {truncate}},
      {"FloorToInt", {floor}},
      {"CeilToInt", {ceil}},
      {"RoundToInt", {round}},
  };
  auto found = known.find(name);
  return found == known.end() ? nullptr : &found->second;
}

class Reader {
 public:
  explicit Reader(const std::function<Expr(PyObject*)>& symbol) : symbol_(symbol) {}

  Expr read(PyObject* expression) const {
    const std::string_view name = _PyType_Name(Py_TYPE(expression));
    if (name == "Symbol") return symbol_(take(PyObject_GetAttrString(expression, "name")).get());
    if (name == "BooleanTrue" || name == "BooleanFalse") return shape::truth(name == "BooleanTrue");
    if (name == "Float") return shape::float_constant(PyFloat_AsDouble(take(PyNumber_Float(expression)).get()));
    if (is_integer(expression)) return integer(expression);
    const Function* function = function_of(name);
    return function ? apply(*function, take(PyObject_GetAttrString(expression, "args")).get()) : nullptr;
  }

 private:
  /// True for instances of Zero, One, NegativeOne and Integer.
  static bool is_integer(PyObject* expression) {
    static PyObject* const name = intern("is_Integer");
    return take(PyObject_GetAttr(expression, name)).get() == Py_True;
  }

  static Expr integer(PyObject* expression) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(take(PyNumber_Long(expression)).get(), &overflow);
    return overflow ? nullptr : shape::constant(value);
  }

  Expr apply(const Function& function, PyObject* operands) const {
    const Py_ssize_t count = PyTuple_GET_SIZE(operands);
    if (count < 1 || (function.of_one ? count != 1 : count != 2 && !function.of_many)) return nullptr;
    Expr result = read(PyTuple_GET_ITEM(operands, 0));
    if (function.of_one) return result ? function.of_one(result) : nullptr;
    for (Py_ssize_t i = 1; i < count && result; ++i) {
      const Expr operand = read(PyTuple_GET_ITEM(operands, i));
      result = operand ? function.of_two(result, operand) : nullptr;
    }
    return result;
  }

  const std::function<Expr(PyObject*)>& symbol_;
};

}  // namespace

Expr from_sympy(PyObject* expression, const std::function<Expr(PyObject*)>& symbol) {
  return Reader(symbol).read(expression);
}

}  // namespace gramme::meta
