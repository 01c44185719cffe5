// Texts of tensor signatures, and of how a tensor differs from one.
#include <c10/core/Device.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/Layout.h>
#include <c10/core/ScalarType.h>
#include <c10/util/StringUtil.h>

#include <cctype>

#include "aten/classes.h"
#include "aten/spec.h"

namespace gramme::aten {
namespace {

std::string join(const std::vector<shape::SymInt>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + shape::print(values[i]);
  return text + "]";
}

std::string dtype_name(int8_t dtype) {
  auto type = static_cast<c10::ScalarType>(dtype);
  static constexpr std::pair<c10::ScalarType, const char*> kSpelled[] = {
      {c10::kFloat, "float32"},
      {c10::kDouble, "float64"},
      {c10::kHalf, "float16"},
      {c10::kByte, "uint8"},
      {c10::kChar, "int8"},
      {c10::kShort, "int16"},
      {c10::kInt, "int32"},
      {c10::kLong, "int64"},
      {c10::kComplexFloat, "complex64"},
      {c10::kComplexDouble, "complex128"}};  // as Python does
  for (const auto& [known, spelled] : kSpelled)
    if (known == type) return spelled;
  std::string name = c10::toString(type);
  for (char& c : name) c = static_cast<char>(std::tolower(c));
  return name;
}

std::string device_name(const TensorType& type) {
  return c10::Device(static_cast<c10::DeviceType>(type.device_type), type.device_index).str();
}

std::string outside_of(const TensorType& t) {
  std::string text = std::string(t.type->tp_name) + " " + dtype_name(t.dtype) + join(t.sizes);
  if (!t.strides.empty()) text += " strides " + join(t.strides);
  auto kind = static_cast<c10::Layout>(t.layout);
  if (kind != c10::kStrided) text += " " + std::string(c10::str(kind));
  return text + " " + device_name(t);
}

}  // namespace

std::string TensorType::print() const {
  std::string text = outside_of(*this);
  if (requires_grad) text += is_leaf ? " requires_grad" : " requires_grad, not a leaf";
  return text + (is_inference ? " inference" : "");
}

std::string TensorSpec::print() const {
  if (compares_autograd) return tensor->print();
  return outside_of(*tensor) + " with or without requires_grad" + (tensor->is_inference ? " inference" : "");
}

Mismatch explain_mismatch(const TensorSpec& expected, PyObject* object) {
  using Kind = Mismatched;
  if (!is_tensor(object))
    return {Kind::Type, "", std::string("is a ") + Py_TYPE(object)->tp_name + ", was " + expected.print()};
  const TensorSpec* whole = tensor_spec(object);
  const TensorSpec& actual = *with_varying(expected.compares_autograd ? *whole : *without_autograd(*whole),
                                           expected.varying_sizes, expected.varying_strides);
  const TensorType &spec = *expected.tensor, &now = *actual.tensor, &full = *whole->tensor;
  auto changed = [](Kind kind, const char* what, const std::string& from, const std::string& to) {
    return Mismatch{kind, "", std::string(what) + " changed from " + from + " to " + to};
  };
  auto truth = [](bool value) { return std::string(value ? "True" : "False"); };
  if (now.type != spec.type) return changed(Kind::TensorKind, "type", spec.type->tp_name, now.type->tp_name);
  if (now.dtype != spec.dtype) return changed(Kind::TensorKind, "dtype", dtype_name(spec.dtype), dtype_name(now.dtype));
  if (device_name(now) != device_name(spec))
    return changed(Kind::TensorKind, "device", device_name(spec), device_name(now));
  if (now.layout != spec.layout)
    return changed(Kind::TensorKind, "layout", c10::str(static_cast<c10::Layout>(spec.layout)),
                   c10::str(static_cast<c10::Layout>(now.layout)));
  if (now.sizes != spec.sizes) return changed(Kind::Shape, "shape", join(spec.sizes), join(full.sizes));
  if (now.strides != spec.strides) return changed(Kind::Strides, "strides", join(spec.strides), join(full.strides));
  if (now.requires_grad != spec.requires_grad)
    return changed(Kind::RequiresGrad, "requires_grad", truth(spec.requires_grad), truth(now.requires_grad));
  if (expected.compares_views && actual.special_view != expected.special_view)
    return changed(Kind::TensorKind, "whether it is a view that autograd may refuse", truth(expected.special_view),
                   truth(actual.special_view));
  if (now.is_leaf != spec.is_leaf) return changed(Kind::TensorKind, "is_leaf", truth(spec.is_leaf), truth(now.is_leaf));
  if (now.is_inference != spec.is_inference)
    return changed(Kind::Mode, "is_inference", truth(spec.is_inference), truth(now.is_inference));
  if (actual.keys != expected.keys)
    return changed(Kind::TensorKind, "dispatch keys",
                   c10::toString(c10::DispatchKeySet(c10::DispatchKeySet::RAW, expected.keys)),
                   c10::toString(c10::DispatchKeySet(c10::DispatchKeySet::RAW, actual.keys)));
  if (!matches(actual, object)) return {Kind::TensorKind, "", "has a tangent, or sizes that only its class knows"};
  return {Kind::TensorKind, "", matches(expected, object) ? "" : "internal flags changed"};
}

}  // namespace gramme::aten
