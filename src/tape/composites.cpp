// Lists of operators by name, and the settings they read.
#include "tape/composites.h"

#include <ATen/Context.h>

#include <string_view>
#include <unordered_set>

#include "torch/calls.h"

namespace gramme::native {

bool is_composite(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
         !op.hasKernelForDispatchKey(c10::DispatchKey::CPU);
}

bool is_taken_apart(const c10::OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  return is_composite(op) && of_torch::is_operator(name.name, name.overload_name, of_torch::Apart);
}

bool is_blind_to_sizes(const c10::OperatorHandle& op, c10::ArrayRef<const c10::IValue> inputs) {
  const std::string& name = op.operator_name().name;
  if (name == "aten::dropout") return inputs.size() == 3 && inputs[2].isBool() && !inputs[2].toBool();
  if (name == "aten::to") return !inputs.empty() && inputs.back().isNone();  // no memory format given
  return of_torch::is_operator(name, op.operator_name().overload_name, of_torch::Blind);
}

bool is_known_of_library(const c10::OperatorHandle& op) {
  static const std::unordered_set<std::string_view> known = {"transformers::grouped_mm_fallback",
                                                             "transformers::grouped_mm_fallback_backward"};
  return known.contains(op.operator_name().name);
}

bool is_node_of_library(std::string_view name) {
  return name == "GeneratedBackwardFor_transformers_grouped_mm_fallback_defaultBackward";
}

KernelSettings KernelSettings::read() {
  const at::Context& context = at::globalContext();
  return {context.userEnabledFlashSDP(),        context.userEnabledMemEfficientSDP(),    context.userEnabledMathSDP(),
          context.userEnabledOverrideableSDP(), context.allowFP16BF16ReductionMathSDP(), context.userEnabledMkldnn()};
}

}  // namespace gramme::native
