// Conversions between numerals, scalars, boxed values and lists of them.
#include "tape/numerals.h"

#include <ATen/ScalarOps.h>

namespace gramme::native {
namespace {

template <class T, class Get>
c10::List<T> list_at(const OperatorArgument& argument, Get&& get) {
  c10::List<T> list;
  list.reserve(argument.numbers.size());
  for (const Numeral& number : argument.numbers) list.push_back(get(number));
  return list;
}

c10::Scalar number_of(PyObject* object) {
  if (object && PyFloat_CheckExact(object)) return PyFloat_AS_DOUBLE(object);
  int overflow = 0;
  const long long whole = object && PyLong_CheckExact(object) ? PyLong_AsLongLongAndOverflow(object, &overflow) : 0;
  TORCH_CHECK(object && PyLong_CheckExact(object) && !overflow, "a number is not what it was when it was recorded");
  return static_cast<int64_t>(whole);
}

}  // namespace

c10::TypePtr plain_type(const c10::TypePtr& type) {
  const c10::TypeKind kind = type->kind();
  if (kind == c10::TypeKind::SymIntType) return c10::IntType::get();
  if (kind == c10::TypeKind::SymFloatType) return c10::FloatType::get();
  return kind == c10::TypeKind::SymBoolType ? c10::BoolType::get() : type;
}

c10::Scalar scalar_at(const Numeral& number, const Run& run) {
  switch (number.kind) {
    case Numeral::Constant:
      return number.constant;
    case Numeral::Whole:
      return run.numbers[number.index];
    case Numeral::Float:
      return shape::as_float(run.numbers[number.index]);
    case Numeral::Object:
      return number_of(run.objects[number.index].get());
  }
  return {};
}

c10::IValue numbers_at(const OperatorArgument& argument, const Run& run) {
  auto scalar = [&run](const Numeral& number) { return scalar_at(number, run); };
  switch (argument.kind) {
    case OperatorArgument::Number:
      return scalar(argument.numbers[0]);
    case OperatorArgument::NumberTensor:
      return number_tensor(scalar(argument.numbers[0]));
    case OperatorArgument::Integers:
      return list_at<int64_t>(argument, [&run](const Numeral& number) { return integer_at(number, run); });
    case OperatorArgument::Floats:
      return list_at<double>(argument, [&](const Numeral& number) { return scalar(number).toDouble(); });
    case OperatorArgument::Scalars:
      return list_at<c10::Scalar>(argument, scalar);
    case OperatorArgument::Constant:
    case OperatorArgument::Tensor:
    case OperatorArgument::Tensors:
    case OperatorArgument::MaybeTensors:
      break;  // no numbers
  }
  return {};
}

at::Tensor number_tensor(const c10::Scalar& value) {
  at::Tensor tensor = c10::scalar_to_tensor(value);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

}  // namespace gramme::native
