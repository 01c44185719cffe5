// Test-only bindings of the room shape, as gramme._C.testing.shape: expressions with the operators of numbers.
#include "api/testing_shape.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>

#include "api/testing.h"
#include "shape/assumptions.h"
#include "shape/program.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace gramme::api {
namespace {

using shape::Expr;
using shape::Type;

int64_t word_of(nb::handle number) {
  if (PyFloat_Check(number.ptr())) return shape::as_word(PyFloat_AS_DOUBLE(number.ptr()));
  return nb::cast<int64_t>(number);
}

nb::object value_of(Expr e, int64_t word) {
  if (e->type == Type::Float) return nb::float_(shape::as_float(word));
  if (e->type == Type::Bool) return nb::bool_(word != 0);
  return nb::int_(word);
}

std::vector<int64_t> placed(shape::Program& program, nb::list values) {
  std::vector<std::pair<shape::Register, int64_t>> symbols;
  for (size_t k = 0; k < values.size(); ++k) {
    const Type type = PyFloat_Check(values[k].ptr()) ? Type::Float : Type::Int;
    symbols.emplace_back(program.add(shape::symbol(static_cast<int64_t>(k), type)), word_of(values[k]));
  }
  std::vector<int64_t> registers = program.registers();
  for (const auto& [r, word] : symbols) registers[r] = word;
  return registers;
}

/// The values of all expressions; None if one of them has none.
nb::object run(const std::vector<Expression>& expressions, nb::list values) {
  shape::Program program;
  std::vector<shape::Register> results;
  for (const Expression& e : expressions) results.push_back(program.add(e.node));
  std::vector<int64_t> registers = placed(program, values);
  if (!shape::run(program.code(), registers.data())) return nb::none();
  nb::list found;
  for (size_t i = 0; i < results.size(); ++i) found.append(value_of(expressions[i].node, registers[results[i]]));
  return found;
}

/// Whether all conditions hold, and the number of instructions of the check.
std::pair<bool, size_t> check(const std::vector<Expression>& conditions, nb::list values) {
  shape::Program program;
  for (const Expression& e : conditions) program.require(e.node);
  std::vector<int64_t> registers = placed(program, values);
  return {shape::run(program.code(), registers.data()), program.code().size()};
}

double check_nanoseconds(const std::vector<Expression>& conditions, nb::list values, int repeats) {
  shape::Program program;
  for (const Expression& e : conditions) program.require(e.node);
  std::vector<int64_t> registers = placed(program, values);
  bool all = true;
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) all &= shape::run(program.code(), registers.data());
  std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
  return all ? taken.count() / repeats : -1;
}

Expression substitute(Expression e, const std::vector<Expression>& by_symbol) {
  std::vector<Expr> nodes;
  for (const Expression& by : by_symbol) nodes.push_back(by.node);
  return {shape::substitute(e.node, nodes)};
}

template <Expr (*make)(Expr, Expr)>
Expression binary(nb::handle a, nb::handle b) {
  return {make(expression_of(a), expression_of(b))};
}

template <Expr (*make)(Expr, Expr)>
Expression reflected(nb::handle b, nb::handle a) {
  return binary<make>(a, b);
}

template <Expr (*make)(Expr)>
Expression unary(nb::handle a) {
  return {make(expression_of(a))};
}

using Ends = std::pair<std::optional<int64_t>, std::optional<int64_t>>;

shape::Range range_of(const Ends& ends) {
  return {ends.first.value_or(shape::Range::kNoLow), ends.second.value_or(shape::Range::kNoHigh)};
}

Ends ends_of(shape::Range range) {
  Ends ends;
  if (range.low != shape::Range::kNoLow) ends.first = range.low;
  if (range.high != shape::Range::kNoHigh) ends.second = range.high;
  return ends;
}

void bind_expression(nb::module_& m) {
  nb::class_<Expression>(m, "Expression")
      .def_prop_ro("expressed", [](Expression e) { return e.node != nullptr; })
      .def_prop_ro("id", [](Expression e) { return e.node->id; })
      .def_prop_ro("size", [](Expression e) { return e.node->size; })
      .def("__repr__", [](Expression e) { return e.node ? shape::print(e.node) : "None"; })
      .def("text", [](Expression e, const std::vector<std::string>& names) { return shape::print(e.node, names); })
      .def("__add__", binary<shape::add>)
      .def("__radd__", reflected<shape::add>)
      .def("__sub__", binary<shape::subtract>)
      .def("__rsub__", reflected<shape::subtract>)
      .def("__mul__", binary<shape::multiply>)
      .def("__rmul__", reflected<shape::multiply>)
      .def("__floordiv__", binary<shape::floor_divide>)
      .def("__rfloordiv__", reflected<shape::floor_divide>)
      .def("__mod__", binary<shape::modulo>)
      .def("__rmod__", reflected<shape::modulo>)
      .def("__truediv__", binary<shape::true_divide>)
      .def("__rtruediv__", reflected<shape::true_divide>)
      .def("__pow__", binary<shape::power>)
      .def("__rpow__", reflected<shape::power>)
      .def("__neg__", unary<shape::negate>);
  m.def("symbol", [](int64_t number) { return Expression{shape::symbol(number)}; });
  m.def("float_symbol", [](int64_t number) { return Expression{shape::symbol(number, Type::Float)}; });
  m.def("expression", [](nb::handle object) { return Expression{expression_of(object)}; });
  m.def("minimum", binary<shape::minimum>);
  m.def("maximum", binary<shape::maximum>);
  m.def("equal", binary<shape::equal>);
  m.def("not_equal", binary<shape::not_equal>);
  m.def("less", binary<shape::less>);
  m.def("at_most", binary<shape::at_most>);
  m.def("greater", binary<shape::greater>);
  m.def("at_least", binary<shape::at_least>);
  m.def("both", binary<shape::both>);
  m.def("either", binary<shape::either>);
  m.def("negation", unary<shape::negation>);
  m.def("to_float", unary<shape::to_float>);
  m.def("truncate", unary<shape::truncate>);
  m.def("floor", unary<shape::floor>);
  m.def("ceil", unary<shape::ceil>);
  m.def("round", unary<shape::round>);
  m.def("square_root", unary<shape::square_root>);
}

void bind_assumptions(nb::module_& m) {
  nb::class_<shape::Assumptions>(m, "Assumptions")
      .def(nb::init<>())
      .def(
          "add_symbol",
          [](shape::Assumptions& self, const Ends& ends, std::optional<int64_t> hint) {
            return Expression{self.add_symbol(range_of(ends), hint)};
          },
          "range"_a, "hint"_a = nb::none())
      .def("add_float", [](shape::Assumptions& self, double hint) { return Expression{self.add_float(hint)}; })
      .def("learn", [](shape::Assumptions& self, Expression e) { self.learn(e.node); })
      .def("decide", [](shape::Assumptions& self, Expression e) { return self.decide(e.node); })
      .def("range", [](shape::Assumptions& self, Expression e) { return ends_of(self.range(e.node)); })
      .def("simplified", [](shape::Assumptions& self, Expression e) { return Expression{self.simplified(e.node)}; })
      .def("hint", [](shape::Assumptions& self, Expression e) -> nb::object {
        const std::optional<int64_t> word = self.hint(e.node);
        return word ? value_of(e.node, *word) : nb::none();
      });
}

}  // namespace

Expr expression_of(nb::handle object) {
  Expression known{};
  if (nb::try_cast(object, known)) return known.node;
  if (PyBool_Check(object.ptr())) return shape::truth(object.ptr() == Py_True);
  if (PyFloat_Check(object.ptr())) return shape::float_constant(PyFloat_AS_DOUBLE(object.ptr()));
  int64_t value = 0;
  return nb::try_cast(object, value) ? shape::constant(value) : nullptr;
}

void bind_shape_testing(nb::module_& testing) {
  nb::module_ m = testing.def_submodule("shape");
  bind_expression(m);
  bind_assumptions(m);
  m.def("run", run);
  m.def("check", check);
  m.def("check_nanoseconds", check_nanoseconds);
  m.def("substitute", substitute);
}

}  // namespace gramme::api
