// What a tensor's signature is, and how another one differs, in words.
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

std::string join(const std::vector<int64_t>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i)
    text += (i ? ", " : "") + (values[i] == kVaries ? "?" : std::to_string(values[i]));
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

std::string device_name(const TensorSpec& spec) {
  return c10::Device(static_cast<c10::DeviceType>(spec.device_type), spec.device_index).str();
}

}  // namespace

std::string TensorSpec::print() const {
  std::string text = std::string(type->tp_name) + " " + dtype_name(dtype) + join(sizes);
  if (!strides.empty()) text += " strides " + join(strides);
  auto kind = static_cast<c10::Layout>(layout);
  if (kind != c10::kStrided) text += " " + std::string(c10::str(kind));
  text += " " + device_name(*this);
  if (!compares_autograd) return text + " with or without requires_grad" + (is_inference ? " inference" : "");
  if (requires_grad) text += is_leaf ? " requires_grad" : " requires_grad, not a leaf";
  if (is_inference) text += " inference";
  return text;
}

std::string explain_mismatch(const TensorSpec& spec, PyObject* object) {
  if (!is_tensor(object)) return std::string("is a ") + Py_TYPE(object)->tp_name + ", was " + spec.print();
  const TensorSpec* full = tensor_spec(object);
  const TensorSpec& now = *with_varying(spec.compares_autograd ? *full : *without_autograd(*full), spec.varying_sizes,
                                        spec.varying_strides);
  auto changed = [](const char* what, const std::string& from, const std::string& to) {
    return std::string(what) + " changed from " + from + " to " + to;
  };
  auto truth = [](bool value) { return std::string(value ? "True" : "False"); };
  if (now.type != spec.type) return changed("type", spec.type->tp_name, now.type->tp_name);
  if (now.dtype != spec.dtype) return changed("dtype", dtype_name(spec.dtype), dtype_name(now.dtype));
  if (device_name(now) != device_name(spec)) return changed("device", device_name(spec), device_name(now));
  if (now.layout != spec.layout)
    return changed("layout", c10::str(static_cast<c10::Layout>(spec.layout)),
                   c10::str(static_cast<c10::Layout>(now.layout)));
  if (now.sizes != spec.sizes) return changed("shape", join(spec.sizes), join(full->sizes));
  if (now.strides != spec.strides) return changed("strides", join(spec.strides), join(full->strides));
  if (now.requires_grad != spec.requires_grad)
    return changed("requires_grad", truth(spec.requires_grad), truth(now.requires_grad));
  if (spec.compares_views && now.special_view != spec.special_view)
    return changed("whether it is a view that autograd may refuse", truth(spec.special_view), truth(now.special_view));
  if (now.is_leaf != spec.is_leaf) return changed("is_leaf", truth(spec.is_leaf), truth(now.is_leaf));
  if (now.is_inference != spec.is_inference)
    return changed("is_inference", truth(spec.is_inference), truth(now.is_inference));
  if (now.keys != spec.keys)
    return changed("dispatch keys", c10::toString(c10::DispatchKeySet(c10::DispatchKeySet::RAW, spec.keys)),
                   c10::toString(c10::DispatchKeySet(c10::DispatchKeySet::RAW, now.keys)));
  if (!matches(now, object)) return "has a tangent, or sizes that only its class knows";
  return matches(spec, object) ? "" : "internal flags changed";
}

}  // namespace gramme::aten
