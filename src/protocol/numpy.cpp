#include "protocol/numpy.h"

#include "aten/classes.h"
#include "base/imported.h"
#include "base/once.h"
#include "meta/silence.h"
#include "protocol/special.h"
#include "source/constant.h"

namespace gramme::protocol {

using namespace value;

namespace {

/// `with numpy.errstate(all="raise")`, as long as it lives: division by zero, overflow and their like are exceptions.
class Strict {
 public:
  Strict() {
    PyObject* const type = once([] { return imported("numpy", "errstate").release(); });
    Owned<> none = take(PyTuple_New(0)), keywords = take(Py_BuildValue("{s:s}", "all", "raise"));
    state_ = take(PyObject_Call(type, none.get(), keywords.get()));
    take(PyObject_CallMethod(state_.get(), "__enter__", nullptr));
  }
  ~Strict() {
    ErrorState pending;
    Owned<> left = Owned<>::steal(PyObject_CallMethod(state_.get(), "__exit__", "OOO", Py_None, Py_None, Py_None));
    if (!left) PyErr_Clear();
  }
  Strict(const Strict&) = delete;

 private:
  Owned<> state_;
};

bool is_number(Value* seen) {
  if (seen->kind == Kind::Number || is_numpy_scalar(seen)) return true;
  return seen->kind == Kind::Constant && (PyBool_Check(seen->object) || PyLong_CheckExact(seen->object) ||
                                          PyFloat_CheckExact(seen->object) || PyComplex_CheckExact(seen->object));
}

}  // namespace

bool is_numpy_scalar(Value* seen) {
  return seen->kind == Kind::Object && seen->object && source::is_leaf(seen->object);
}

Value* computed_by_numpy(Trace& trace, const std::function<PyObject*()>& apply) {
  Owned<> result;
  bool warned;
  {
    Strict strict;
    meta::Silence silence;
    result = Owned<>::steal(apply());
    warned = silence.warned;
  }
  if (!result && PyErr_ExceptionMatches(PyExc_FloatingPointError)) {
    PyErr_Clear();
    warned = true;
  }
  if (warned) cannot(Reason::OperatorWarns);
  if (!result) raise_current(trace);
  return source::is_leaf(result.get()) || source::is_constant(result.get()) ? trace.adopt(std::move(result)) : nullptr;
}

Value* numpy_operator(Trace& trace, NumpyOperator apply, int op, Value*& left, Value*& right) {
  const bool on_left = is_numpy_scalar(left);
  Value *&scalar = on_left ? left : right, *other = on_left ? right : left;
  auto* tensor = as<Tensor>(other);
  if (tensor && aten::is_exact_tensor_type(tensor->record->type) && trace.scope().function_modes().empty()) {
    if (Value* number = trace.python_number(scalar)) return scalar = number, nullptr;
  }
  if (tensor || !is_number(other))
    cannot(Reason::ArgumentKind, "an operand of type " + type_name(on_left ? left : right));
  Owned<> a = trace.concrete(left), b = trace.concrete(right);
  Value* result = a && b ? computed_by_numpy(trace, [&] { return apply(op, a.get(), b.get()); }) : nullptr;
  if (!result) cannot(Reason::ArgumentKind, "operands of types " + type_name(left) + " and " + type_name(right));
  return result;
}

}  // namespace gramme::protocol
