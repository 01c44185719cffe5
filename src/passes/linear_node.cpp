// The gradient formulas of linear, with PyTorch's layouts and order of accumulation, and the node's support for
// compiled autograd.
#include "passes/linear_node.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <array>
#include <optional>
#include <sstream>
#include <string_view>

namespace gramme::native {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
using torch::dynamo::autograd::CompiledNodeArgs;
using torch::dynamo::autograd::SwapSavedVariables;

/// The wanted gradients of bias, input and weight, in the order of the node's edges.
using Wanted = std::array<bool, 3>;
constexpr size_t kOfBias = 0;
size_t of_input(const LinearShape& shape) { return shape.weight_first ? 2 : 1; }
size_t of_weight(const LinearShape& shape) { return shape.weight_first ? 1 : 2; }

at::Tensor gradient_of_input(const LinearShape& shape, const at::Tensor& gradient, const at::Tensor& weight) {
  const bool by_column = shape.input_strides[0] == 1 && shape.input_strides[1] == shape.rows;
  at::Tensor found = by_column ? weight.t().mm(gradient.t()).t() : gradient.mm(weight);
  return shape.flattens ? found.reshape(shape.input) : found;
}

at::Tensor gradient_of_weight(const LinearShape& shape, const at::Tensor& gradient, const at::Tensor& input) {
  const at::Tensor matrix = shape.flattens ? input.reshape({shape.rows, shape.in}) : input;
  return shape.weight_by_row ? gradient.t().mm(matrix) : matrix.t().mm(gradient).t();
}

/// Computes gradients by the formulas, and in the layouts, of PyTorch's nodes.
variable_list gradients_of(const LinearShape& shape, const Wanted& wanted, const at::Tensor& output,
                           const at::Tensor& input, const at::Tensor& weight) {
  variable_list found(wanted.size());
  if (!output.defined()) return found;
  std::optional<at::AutoDispatchBelowADInplaceOrView> below;
  if (!c10::GradMode::is_enabled() && is_only_cpu(output.key_set())) below.emplace();
  const at::Tensor gradient = shape.flattens ? output.reshape({shape.rows, shape.out}) : output;
  if (wanted[kOfBias]) found[kOfBias] = gradient;  // the engine sums its rows
  // A view, as in eager: of a parameter itself autocast would take the cast that it has kept, of whatever dtype.
  if (wanted[of_input(shape)])
    found[of_input(shape)] = gradient_of_input(shape, gradient, below ? weight : weight.t().t());
  if (wanted[of_weight(shape)]) found[of_weight(shape)] = gradient_of_weight(shape, gradient, input);
  return found;
}

/// The view that eager saves instead of the tensor.
struct View {
  c10::SmallVector<int64_t, 2> sizes;
  bool requires_grad;
};

/// Rewords autograd's message about a modified tensor to name the view, as eager's does.
std::string about_view(std::string message, const View& saved) {
  constexpr std::string_view kOperation = "inplace operation: [";
  const size_t type = message.find(kOperation), end = message.find(" is at version");
  const size_t space = type == std::string::npos ? type : message.find(' ', type + kOperation.size());
  if (space == std::string::npos || end == std::string::npos || space > end) return message;
  std::ostringstream view;
  view << " " << at::IntArrayRef(saved.sizes) << "]"
       << (saved.requires_grad ? ", which is output 0 of AsStrided," : "");
  return message.replace(space, end - space, view.str());
}

at::Tensor unpacked(const SavedVariable& saved, const View& view) {
  try {
    return saved.unpack();
  } catch (const c10::Error& error) {
    TORCH_CHECK(false, about_view(error.what_without_backtrace(), view));
  }
}

class LinearBackward final : public torch::autograd::Node {
 public:
  LinearBackward(std::shared_ptr<const LinearShape> shape, const at::Tensor& input, const at::Tensor& weight,
                 const at::Tensor& bias)
      : shape_(std::move(shape)), has_bias_(bias.defined()) {
    set_next_edges(shape_->weight_first ? torch::autograd::collect_next_edges(bias, weight, input)
                                        : torch::autograd::collect_next_edges(bias, input, weight));
    if (needs_weight()) weight_ = SavedVariable(weight, false);
    if (needs_input()) input_ = SavedVariable(input, false);
  }

  std::string name() const override { return "LinearBackward"; }
  void release_variables() override {
    std::lock_guard<std::mutex> lock(mutex_);
    input_.reset_data();
    weight_.reset_data();
  }

  // For compiled autograd: the cache key of the node, and its call in the graph.
  void compiled_args(CompiledNodeArgs& args) const override;
  variable_list apply_with_saved(const variable_list& gradients, SwapSavedVariables& saved) override;

 private:
  bool needs_weight() const { return should_compute_output(of_input(*shape_)); }
  bool needs_input() const { return should_compute_output(of_weight(*shape_)); }
  Wanted wanted() const {
    return {task_should_compute_output(0), task_should_compute_output(1), task_should_compute_output(2)};
  }

  variable_list apply(variable_list&& gradients) override {
    std::lock_guard<std::mutex> lock(mutex_);
    const Wanted wanted = this->wanted();
    if (c10::GradMode::is_enabled()) *shape_->twice = true;
    // In the order of eager's node, which checks all that it saved, whatever gradients are wanted.
    at::Tensor input, weight;
    if (has_bias_) input = unpacked_input();
    weight = unpacked_weight();
    if (!has_bias_) input = unpacked_input();
    return gradients_of(*shape_, wanted, gradients[0], input, weight);
  }
  at::Tensor unpacked_input() const {
    if (!needs_input()) return {};
    return shape_->flattens ? unpacked(input_, {{shape_->rows, shape_->in}, needs_weight()}) : input_.unpack();
  }
  at::Tensor unpacked_weight() const {
    return needs_weight() ? unpacked(weight_, {{shape_->in, shape_->out}, needs_input()}) : at::Tensor();
  }

  const std::shared_ptr<const LinearShape> shape_;
  const bool has_bias_;
  SavedVariable input_, weight_;
};

void LinearBackward::compiled_args(CompiledNodeArgs& args) const {
  for (const c10::DimVector* numbers : {&shape_->input, &shape_->output, &shape_->input_strides}) {
    args.collect(numbers->size());
    for (int64_t number : *numbers) args.collect(number);
  }
  args.collect(shape_->weight_by_row);
  args.collect(shape_->weight_first);
  args.collect(input_, false);
  args.collect(weight_, false);
}

variable_list LinearBackward::apply_with_saved(const variable_list& gradients, SwapSavedVariables& saved) {
  using namespace torch::dynamo::autograd;
  saved.before(input_);
  saved.before(weight_);
  const Wanted wanted = this->wanted();
  PackedArgs packed;
  packed.pack(std::vector<bool>(wanted.begin(), wanted.end()));
  packed.pack(needs_input() ? input_.unpack() : at::Tensor());
  packed.pack(needs_weight() ? weight_.unpack() : at::Tensor());
  auto function = [shape = shape_](const variable_list& gradients, const std::vector<c10::IValue>& arguments) {
    PackedArgs packed(arguments);
    const auto flags = packed.unpack<std::vector<bool>>();
    const auto input = packed.unpack<at::Tensor>(), weight = packed.unpack<at::Tensor>();
    return gradients_of(*shape, {flags[0], flags[1], flags[2]}, gradients[0], input, weight);
  };
  const std::vector<c10::TypePtr> types{c10::ListType::ofBools(), c10::TensorType::get(), c10::TensorType::get()};
  const auto& compiler = getPyCompilerInterface();
  // The function depends on the shape, so each shape gets its own name.
  const std::string bound = compiler->bind_function(saved.get_py_compiler(), name(), function, types, true);
  const c10::IValue metadata =
      IValuePacker<std::vector<std::optional<InputMetadata>>>::pack(get_input_metadata(next_edges()));
  variable_list found =
      compiler->call_function(saved.get_py_compiler(), "apply_functional", bound, gradients, packed.vec(), metadata);
  saved.after(input_);
  saved.after(weight_);
  return found;
}

}  // namespace

/// True if operators on tensors with these keys reach only CPU kernels and autograd, on this thread at present.
bool is_only_cpu(c10::DispatchKeySet keys) {
  constexpr c10::DispatchKeySet expected({c10::DispatchKey::CPU, c10::DispatchKey::AutogradCPU});
  constexpr c10::DispatchKeySet beside({c10::DispatchKey::BackendSelect, c10::DispatchKey::ADInplaceOrView});
  const c10::impl::LocalDispatchKeySet tls = c10::impl::tls_local_dispatch_key_set();
  return ((keys | tls.included_) - tls.excluded_ - beside) == expected;
}

c10::intrusive_ptr<torch::autograd::Node> make_linear_node(std::shared_ptr<const LinearShape> shape,
                                                           const at::Tensor& input, const at::Tensor& weight,
                                                           const at::Tensor& bias) {
  return c10::make_intrusive<LinearBackward>(std::move(shape), input, weight, bias);
}

}  // namespace gramme::native
