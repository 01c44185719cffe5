// Lowers expressions by calling Python's operators on those objects.
#include "backend/computed.h"

namespace gramme::backend {
namespace {

using Operator = PyObject* (*)(PyObject*, PyObject*);

Operator operator_of(shape::Operation operation) {
  using O = shape::Operation;
  static constexpr std::pair<O, Operator> kOperators[] = {{O::Add, PyNumber_Add},
                                                          {O::Subtract, PyNumber_Subtract},
                                                          {O::Multiply, PyNumber_Multiply},
                                                          {O::FloorDivide, PyNumber_FloorDivide},
                                                          {O::Modulo, PyNumber_Remainder},
                                                          {O::And, PyNumber_And},
                                                          {O::Or, PyNumber_Or}};
  for (const auto& [known, function] : kOperators)
    if (known == operation) return function;
  return nullptr;
}

/// The result of comparing two numbers; null for other operations.
Owned<> compared(shape::Operation operation, PyObject* a, PyObject* b) {
  using O = shape::Operation;
  static constexpr std::pair<O, int> kComparisons[] = {
      {O::AtMost, Py_LE}, {O::AtLeast, Py_GE}, {O::Equal, Py_EQ}, {O::NotEqual, Py_NE}};
  for (const auto& [known, comparison] : kComparisons)
    if (known == operation) return take(PyObject_RichCompare(a, b, comparison));
  return {};
}

}  // namespace

Owned<> Computed::list(const std::vector<shape::SymInt>& numbers) {
  Owned<> result = take(PyList_New(0));
  for (shape::SymInt number : numbers) {
    PyObject* value = of(number);
    if (!value) return {};
    check(PyList_Append(result.get(), value));
  }
  return result;
}

const Computed::Value* Computed::known(shape::Expr e) const {
  const auto found = known_.find(e);
  return found == known_.end() ? nullptr : &found->second;
}

Computed::Value Computed::leaf(shape::Expr e) {
  if (e->type != shape::Type::Int) return nullptr;
  if (is_constant(e)) return made(take(PyLong_FromLongLong(e->constant)));
  PyObject* value =
      e->constant < PyList_GET_SIZE(symbols_.get()) ? PyList_GET_ITEM(symbols_.get(), e->constant) : nullptr;
  return value == Py_None ? nullptr : value;
}

Computed::Value Computed::compute(shape::Operation operation, Value a, Value b) {
  if (!a || !b) return nullptr;
  if (const Operator function = operator_of(operation)) return made(take(function(a, b)));
  Owned<> answer = compared(operation, a, b);
  return answer ? made(std::move(answer)) : nullptr;
}

Computed::Value Computed::made(Owned<> value) {
  made_.push_back(std::move(value));
  return made_.back().get();
}

}  // namespace gramme::backend
