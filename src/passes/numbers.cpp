// Finds arithmetic on a float tensor and a constant number, and converts the number's tensor beforehand.
#include "passes/numbers.h"

#include <ATen/ATen.h>

#include <string_view>
#include <unordered_set>

#include "tape/registers.h"

namespace gramme::native {
namespace {

bool is_arithmetic(const c10::OperatorHandle& op) {
  static const std::unordered_set<std::string_view> names = {"aten::add",  "aten::sub",  "aten::mul",  "aten::div",
                                                             "aten::add_", "aten::sub_", "aten::mul_", "aten::div_"};
  return names.count(op.operator_name().name) && op.operator_name().overload_name == "Tensor";
}

at::Tensor converted(const at::Tensor& number, c10::ScalarType dtype) {
  at::Tensor result = number.to(dtype);
  result.unsafeGetTensorImpl()->set_wrapped_number(true);
  return result;
}

}  // namespace

std::unordered_map<Register, at::Tensor> converted_numbers(const Assembly& assembly) {
  std::unordered_map<Register, at::Tensor> numbers, found;
  for (const auto& [r, tensor] : assembly.recorder.constants())
    if (tensor.defined() && tensor.unsafeGetTensorImpl()->is_wrapped_number()) numbers.emplace(r, tensor);
  for (const Instruction& instruction : assembly.instructions) {
    if (!instruction.call || !is_arithmetic(instruction.call->op)) continue;
    const auto& arguments = instruction.call->arguments;
    if (arguments[0].registers.empty() || arguments[1].registers.empty()) continue;
    const Register left = arguments[0].registers[0];
    const auto number = numbers.find(arguments[1].registers[0]);
    const c10::ScalarType dtype = assembly.recorder.seen(left).dtype();
    if (number == numbers.end() || (dtype != c10::kFloat && dtype != c10::kDouble)) continue;
    if (number->second.is_complex() || number->second.scalar_type() == dtype) continue;
    found.emplace(number->first, converted(number->second, dtype));
  }
  return found;
}

}  // namespace gramme::native
