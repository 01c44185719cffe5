// Translation between gramme's expressions and the sympy expressions of a ShapeEnv.
#include "meta/environment.h"

#include "aten/python.h"
#include "base/imported.h"
#include "base/once.h"
#include "meta/sympy.h"
#include "torch/names.h"

namespace gramme::meta {

using shape::Expr;

Environment::Environment(shape::Assumptions& assumptions)
    : Environment(
          assumptions,
          take(PyObject_CallNoArgs(once([] { return imported("gramme._environment", "Environment").release(); })))) {}

Environment::Environment(shape::Assumptions& assumptions, Owned<> environment)
    : assumptions_(assumptions), environment_(std::move(environment)) {
  shape_env_ = take(PyObject_GetAttrString(environment_.get(), "env"));
}

Owned<> Environment::number(Expr e) {
  if (is_constant(e)) return take(PyLong_FromLongLong(e->constant));
  if (const auto known = symbols_.find(e); known != symbols_.end()) return known->second;
  if (e->type != shape::Type::Int) throw Inexpressible("a number that is no int");
  const std::optional<int64_t> hint = assumptions_.hint(e);
  if (!hint) throw Inexpressible("a size that is not known while the capture runs");
  const Expr positive = at_least(e, shape::constant(1));
  const bool is_size = positive && assumptions_.decide(positive) == true;
  if (is_size) assumed_.push_back(positive);
  return add(e, take(PyObject_CallMethod(environment_.get(), "symbol", "Li", static_cast<long long>(*hint),
                                         static_cast<int>(is_size))));
}

Owned<> Environment::add(Expr e, Owned<> made) {
  named_[PyUnicode_AsUTF8(PyTuple_GET_ITEM(made.get(), 1))] = e;
  Owned<> symbol = share(PyTuple_GET_ITEM(made.get(), 0));
  symbols_[e] = symbol;
  return symbol;
}

c10::SymInt Environment::number(shape::SymInt number) {
  if (number.is_number()) return *number.number();
  return aten::symint_of(this->number(number.expr()).get());
}

Expr Environment::unknown(PyObject*) { throw OutOfData("a number that comes out of data"); }

Expr Environment::convert(PyObject* sympy) {
  const Expr e = from_sympy(sympy, [&](PyObject* name) -> Expr {
    auto found = named_.find(PyUnicode_AsUTF8(name));
    return found == named_.end() ? unknown(name) : found->second;
  });
  if (e) return e;
  Owned<> text = take(PyObject_Str(sympy));
  throw Inexpressible(PyUnicode_AsUTF8(text.get()));
}

/// Reads the expression as it was computed; equalities found later become guards instead.
Expr Environment::read(PyObject* symbolic) {
  Owned<> node = take(PyObject_GetAttrString(symbolic, "node"));
  return convert(take(PyObject_GetAttrString(node.get(), of_torch::text(of_torch::NodeExpression))).get());
}

shape::SymInt Environment::read(const c10::SymInt& number) {
  if (!number.is_heap_allocated()) return number.as_int_unchecked();
  const Owned<> object = aten::object_of(number);
  return PyLong_CheckExact(object.get()) ? shape::SymInt(PyLong_AsLongLong(object.get()))
                                         : shape::SymInt(read(object.get()));
}

std::vector<Expr> Environment::convert_all(const char* method) {
  std::vector<Expr> result;
  Owned<> list = take(PyObject_CallMethod(environment_.get(), method, nullptr));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
    const Expr condition = convert(PyList_GET_ITEM(list.get(), i));
    if (!shape::is_constant(condition, 1)) result.push_back(condition);
  }
  return result;
}

std::vector<Expr> Environment::guards() {
  std::vector<Expr> result = assumed_, found = convert_all("guards");
  result.insert(result.end(), found.begin(), found.end());
  return result;
}

bool is_symbolic(PyObject* value) {
  return aten::is_symint(value) || aten::is_symfloat(value) || aten::is_symbool(value);
}

shape::Type type_of_symbolic(PyObject* value) {
  if (aten::is_symint(value)) return shape::Type::Int;
  return aten::is_symfloat(value) ? shape::Type::Float : shape::Type::Bool;
}

}  // namespace gramme::meta
