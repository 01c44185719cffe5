// Matches result tensors with operands by identity and storage, across wrappers and transform levels.
#include "meta/description.h"

#include <algorithm>
#include <cstring>

#include "aten/python.h"
#include "base/imported.h"
#include "base/once.h"
#include "meta/environment.h"
#include "meta/kernels.h"
#include "meta/ragged.h"
#include "torch/names.h"

namespace gramme::meta {
namespace {

bool is_scalar(PyObject* value) {
  return PyBool_Check(value) || PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyComplex_CheckExact(value);
}

PyObject* type_of_number(shape::Type type) {
  PyTypeObject* known = type == shape::Type::Int     ? &PyLong_Type
                        : type == shape::Type::Float ? &PyFloat_Type
                                                     : &PyBool_Type;
  return reinterpret_cast<PyObject*>(known);
}

bool has_symbolic_item(PyObject* size) {
  for (Py_ssize_t i = 0; PyTuple_Check(size) && i < PyTuple_GET_SIZE(size); ++i)
    if (is_symbolic(PyTuple_GET_ITEM(size, i))) return true;
  return false;
}

bool is_constant(PyObject* value) {
  if (value == Py_None || value == Py_Ellipsis || value == Py_NotImplemented || is_scalar(value)) return true;
  if (PyUnicode_CheckExact(value) || PyType_Check(value)) return true;
  const char* type = Py_TYPE(value)->tp_name;  // torch.dtype, torch.device, torch.layout, torch.Size …
  for (const char* known :
       {"torch.dtype", "torch.device", "torch.layout", "torch.memory_format", "torch.qscheme", "torch.Size"})
    if (!std::strcmp(type, known)) return !has_symbolic_item(value);
  return false;
}

/// True for tensors with state that a record cannot describe: FakeTensorMode makes plain tensors of quantized dtypes,
/// whose scales are unknown.
bool says_more_than_a_record(const at::Tensor& tensor) {
  return c10::isQIntType(tensor.scalar_type()) || tensor.is_quantized() || tensor.is_nested() ||
         tensor._is_zerotensor();
}

bool level_of_left(const Record& record) {
  return record.inner && (record.level == kNoLevel || level_of_left(*record.inner));
}

/// Finds the sharing between a wrapped result and an input, or what that wraps.
void find_wrapped(const at::Tensor& tensor, const FakeInput& input, Result& result) {
  int at = 1;
  for (at::Tensor inner = unwrap(tensor); inner.defined() && result.wraps_leaf < 0; inner = unwrap(inner), ++at) {
    int unwrapped = depth_in(inner, input.tensor());
    if (unwrapped < 0) continue;
    result.wraps_leaf = input.leaf;
    result.wraps_at = at;
    result.wraps_unwrapped = unwrapped;
  }
}

}  // namespace

PyTypeObject* type_of_fake(PyObject* fake) {
  static PyObject* const name = of_torch::attribute(of_torch::IsParam);
  Owned<> mark = Owned<>::steal(PyObject_GetAttr(fake, name));
  if (!mark) PyErr_Clear();
  return mark.get() == Py_True ? aten::parameter_type() : aten::tensor_type();
}

bool FakeInput::shares(const c10::StorageImpl* other) const {
  return other && (other == storage_of(physical()) || std::ranges::find(parts.storages, other) != parts.storages.end());
}

bool Description::describe(PyObject* value, Result& result) {
  if (aten::is_tensor(value)) return describe_tensor(value, result);
  if (is_symbolic(value)) {
    result.kind = Result::Number;
    result.expr = environment_->read(value);
    result.object = share(type_of_number(type_of_symbolic(value)));
    return true;
  }
  if (has_number_ && is_scalar(value)) {
    result.kind = Result::Number;
    result.object = share(reinterpret_cast<PyObject*>(Py_TYPE(value)));
    return true;
  }
  if (is_constant(value)) {
    result.object = share(value);
    return true;
  }
  if (PyTuple_Check(value) || PyList_CheckExact(value)) return describe_sequence(value, result);
  message = std::string("the result is a ") + Py_TYPE(value)->tp_name;
  return false;
}

bool Description::describe_sequence(PyObject* value, Result& result) {
  result.kind = Result::Sequence;
  result.object = share(reinterpret_cast<PyObject*>(Py_TYPE(value)));
  bool constant = PyTuple_CheckExact(value);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
    if (!describe(PySequence_Fast_GET_ITEM(value, i), result.items.emplace_back())) return false;
    constant &= result.items.back().kind == Result::Constant;
  }
  if (!constant) return true;
  result = Result();
  result.object = share(value);
  return true;
}

bool Description::describe_tensor(PyObject* value, Result& result) {
  PyObject* const fake_type = of_torch::object(of_torch::FakeTensor);
  const at::Tensor& tensor = aten::tensor_of(value);
  if (wraps_fakes(value)) return describe_wrapper(value, result);
  Owned<> with_data = aten::object_of(innermost(tensor));
  if (!PyObject_TypeCheck(with_data.get(), reinterpret_cast<PyTypeObject*>(fake_type))) {
    message = "the result is a tensor that was there before the call";
    return false;
  }
  if (tensor.layout() != c10::kStrided) {
    message = "the result has the layout " + std::string(c10::str(tensor.layout()));
    return false;
  }
  if (says_more_than_a_record(innermost(tensor))) {
    message = "the result is a quantized or nested tensor, or one without data";
    return false;
  }
  result.kind = Result::Tensor;
  result.record =
      with_ragged_of(record_of_tensor(tensor, fake_device_of(tensor), type_of_fake(value), environment_), value);
  const auto* storage = storage_of(innermost(tensor));
  result.differentiable_view =
      tracks_gradients(tensor) ? tensor.is_view() : innermost(tensor).is_view() || result.record->inner;
  if (level_of_left(*result.record)) {
    message = "a tensor of a transform that was left";
    return false;
  }
  for (const FakeInput& input : inputs_) {
    if (result.view_of < 0 && input.shares(storage)) result.view_of = input.leaf;
    find_wrapped(tensor, input, result);
    int unwrapped = depth_in(tensor, input.tensor());
    if (unwrapped < 0) continue;
    result.same_as = input.leaf;
    result.unwrapped = unwrapped;
    result.record = with_type(result.record, input.record->type);
  }
  if (result.same_as < 0) result.part = find_part(tensor.unsafeGetTensorImpl());
  return true;
}

Result::Part Description::find_part(const c10::TensorImpl* tensor) const {
  for (const FakeInput& input : inputs_) {
    if (input.tensor().unsafeGetTensorImpl() == tensor) return {input.leaf, -1};
    const auto found = std::ranges::find(input.parts.tensors, tensor);
    if (found != input.parts.tensors.end()) return {input.leaf, static_cast<int>(found - input.parts.tensors.begin())};
  }
  return {};
}

/// Finds sharing between a wrapper and operands that are its inner tensors: a write to one counts for both.
void Description::find_shared(const Parts& parts, Result& result) const {
  std::vector<const c10::StorageImpl*> unexplained = parts.storages;
  for (const FakeInput& input : inputs_) {
    const bool is_part = std::ranges::any_of(
        parts.tensors, [&](const auto* part) { return input.tensor().unsafeGetTensorImpl() == part; });
    if (is_part) std::erase_if(unexplained, [&](const auto* storage) { return input.shares(storage); });
  }
  for (const FakeInput& input : inputs_) {
    if (std::ranges::none_of(unexplained, [&](const auto* storage) { return input.shares(storage); })) continue;
    result.shared |= result.view_of >= 0;
    if (result.view_of < 0) result.view_of = input.leaf;
  }
}

/// Describes a wrapper. It may be an autograd view of an operand, and its inner tensors may share memory with operands
/// in any way.
bool Description::describe_wrapper(PyObject* value, Result& result) {
  const at::Tensor& tensor = aten::tensor_of(value);
  const bool strided = tensor.unsafeGetTensorImpl()->is_python_dispatch() && tensor.layout() == c10::kStrided;
  if (!strided && !aten::is_jagged(tensor)) {
    message = std::string("the result is a ") + Py_TYPE(value)->tp_name + " of another layout";
    return false;
  }
  result.kind = Result::Tensor;
  result.record = record_of_wrapper(value, environment_);
  result.object = share(value);
  result.differentiable_view = tensor.is_view();
  const Parts parts = parts_of(value);
  for (const c10::TensorImpl* part : parts.tensors) result.parts.push_back(find_part(part));
  find_shared(parts, result);
  for (const FakeInput& input : inputs_)
    if (input.tensor().unsafeGetTensorImpl() == tensor.unsafeGetTensorImpl()) result.same_as = input.leaf;
  if (result.same_as < 0) result.part = find_part(tensor.unsafeGetTensorImpl());
  return true;
}

}  // namespace gramme::meta
