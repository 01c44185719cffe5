#include "native/composites.h"

#include <ATen/Context.h>

#include <string_view>
#include <unordered_set>

namespace gramme::native {

bool is_composite(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
         !op.hasKernelForDispatchKey(c10::DispatchKey::CPU);
}

bool is_taken_apart(const c10::OperatorHandle& op) {
  static const std::unordered_set<std::string_view> names = {
      // one view or copy
      "aten::reshape",
      "aten::reshape_as",
      "aten::flatten",
      "aten::unflatten",
      "aten::ravel",
      "aten::view_as",
      "aten::expand_as",
      "aten::broadcast_to",
      "aten::broadcast_tensors",
      "aten::meshgrid",
      "aten::type_as",
      "aten::to",
      "aten::contiguous",
      "aten::chunk",
      "aten::narrow",
      "aten::movedim",
      "aten::moveaxis",
      "aten::swapaxes",
      "aten::swapdims",
      "aten::numpy_T",
      "aten::mT",
      "aten::adjoint",
      "aten::tile",
      "aten::hstack",
      "aten::vstack",
      "aten::concat",
      "aten::concatenate",
      "aten::fliplr",
      "aten::flipud",
      // arithmetic
      "aten::square",
      "aten::clip",
      "aten::multiply",
      "aten::subtract",
      "aten::divide",
      "aten::true_divide",
      "aten::absolute",
      "aten::outer",
      "aten::inner",
      "aten::relu6",
      "aten::selu",
      "aten::std",
      "aten::var",
      "aten::softmax",
      "aten::log_softmax",
      "aten::where",
      // products
      "aten::linear",
      "aten::matmul",
      "aten::einsum",
      "aten::tensordot",
      "aten::scaled_dot_product_attention",
      // layers
      "aten::layer_norm",
      "aten::rms_norm",
      "aten::group_norm",
      "aten::instance_norm",
      "aten::dropout",
      "aten::feature_dropout",
      "aten::alpha_dropout",
      "aten::conv1d",
      "aten::conv2d",
      "aten::conv3d",
      "aten::conv_transpose1d",
      "aten::conv_transpose2d",
      "aten::conv_transpose3d",
      "aten::max_pool2d",
      "aten::max_pool3d",
      "aten::avg_pool1d",
      "aten::adaptive_avg_pool1d",
      "aten::adaptive_avg_pool2d",
      "aten::adaptive_avg_pool3d",
      "aten::pad",
      "aten::cross_entropy_loss",
      "aten::nll_loss",
      "aten::nll_loss_nd",
      "aten::l1_loss",
      "aten::kl_div",
      "aten::cosine_similarity",
  };
  return is_composite(op) && names.count(op.operator_name().name) != 0;
}

bool is_blind_to_sizes(const c10::OperatorHandle& op, c10::ArrayRef<const c10::IValue> inputs) {
  static const std::unordered_set<std::string_view> blind = {
      "aten::layer_norm", "aten::softmax", "aten::log_softmax", "aten::square",   "aten::multiply",
      "aten::subtract",   "aten::divide",  "aten::true_divide", "aten::absolute", "aten::relu6",
      "aten::selu",       "aten::where",   "aten::type_as",
  };
  const std::string& name = op.operator_name().name;
  if (name == "aten::dropout") return inputs.size() == 3 && inputs[2].isBool() && !inputs[2].toBool();
  if (name == "aten::to") return !inputs.empty() && inputs.back().isNone();  // no memory format
  return blind.contains(name);
}

KernelSettings KernelSettings::read() {
  const at::Context& context = at::globalContext();
  return {context.userEnabledFlashSDP(), context.userEnabledMemEfficientSDP(), context.userEnabledMathSDP(),
          context.userEnabledOverrideableSDP(), context.userEnabledMkldnn()};
}

}  // namespace gramme::native
