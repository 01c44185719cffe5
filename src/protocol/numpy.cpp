// Runs NumPy's own functions on scalars in the capture, under errstate(all="raise") to detect warnings.
#include "protocol/numpy.h"

#include "aten/classes.h"
#include "base/imported.h"
#include "base/once.h"
#include "base/process.h"
#include "meta/silence.h"
#include "protocol/special.h"
#include "source/constant.h"
#include "source/leaf_types.h"
#include "trace/arrays.h"

namespace gramme::protocol {

using namespace value;

namespace {

/// Scope of `numpy.errstate(all="raise")`: division by zero, overflow and the like raise.
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

AtLoad<ArrayCall> calls_of_arrays;

/// True for NumPy's callables, by their type or their defining class.
bool is_of_numpy(PyObject* callable) {
  static PyObject* const name = intern("__name__");
  static PyObject* const numpy = intern("numpy");
  const auto starts = [](const char* text) { return std::string_view(text).starts_with("numpy."); };
  PyTypeObject* type = Py_TYPE(callable);
  const bool descriptor = type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type || type == &PyGetSetDescr_Type ||
                          type == &PyMemberDescr_Type;
  if (descriptor) return starts(PyDescr_TYPE(callable)->tp_name);
  if (PyType_Check(callable)) return starts(reinterpret_cast<PyTypeObject*>(callable)->tp_name);
  PyObject* module = PyCFunction_Check(callable)  ? reinterpret_cast<PyCFunctionObject*>(callable)->m_module
                     : PyFunction_Check(callable) ? PyDict_GetItemWithError(PyFunction_GET_GLOBALS(callable), name)
                                                  : nullptr;
  if (!module || !PyUnicode_Check(module)) return starts(type->tp_name);
  return PyUnicode_Tailmatch(module, numpy, 0, PY_SSIZE_T_MAX, -1) == 1;
}

bool is_number(Value* seen) {
  if (seen->kind == Kind::Number || is_numpy_scalar(seen)) return true;
  return seen->kind == Kind::Constant && (PyBool_Check(seen->object) || PyLong_CheckExact(seen->object) ||
                                          PyFloat_CheckExact(seen->object) || PyComplex_CheckExact(seen->object));
}

}  // namespace

void set_array_call(ArrayCall call) { calls_of_arrays.fill() = call; }

Value* array_call(Trace& trace, PyObject* callable, const Args& args) {
  return *calls_of_arrays && is_of_numpy(callable) ? (*calls_of_arrays)(trace, callable, args) : nullptr;
}

bool is_method_of_ufunc(PyObject* descriptor) {
  return Py_IS_TYPE(descriptor, &PyMethodDescr_Type) &&
         std::string_view(PyDescr_TYPE(descriptor)->tp_name) == "numpy.ufunc";
}

bool is_numpy_scalar(Value* seen) {
  return seen->kind == Kind::Object && seen->object && source::is_scalar(seen->object);
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
  return source::is_scalar(result.get()) || source::is_constant(result.get()) ? trace.adopt(std::move(result))
                                                                              : nullptr;
}

Value* numpy_operator(Trace& trace, NumpyOperator apply, int op, Value*& left, Value*& right) {
  const bool on_left = is_numpy_scalar(left);
  Value *&scalar = on_left ? left : right, *other = on_left ? right : left;
  if (trace::array_of(trace, other)) return nullptr;
  auto* tensor = as<Tensor>(other);
  if (tensor && aten::is_exact_tensor_type(tensor->record->type) && !trace.scope().modes().in_function_mode()) {
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
