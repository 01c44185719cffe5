#include "native/linear.h"

#include <ATen/SavedTensorHooks.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <array>
#include <string_view>

#include "native/views.h"

namespace gramme::native {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
using torch::dynamo::autograd::CompiledNodeArgs;
using torch::dynamo::autograd::SwapSavedVariables;

/// The sizes of a call.
struct Shape {
  c10::DimVector input, output;
  int64_t rows = 0, in = 0, out = 0;
  c10::DimVector input_strides;  // of the input as a matrix [rows, in]
  bool flattens = false;         // the input is no matrix
  bool weight_by_row = false;    // the rows of the weight lie one after the other
  bool weight_first = false;     // eager has the weight's gradient before the input's
};

// ---- what a recording shows

/// Follows the calls that linear made.
class Parts {
 public:
  Parts(const OperatorCall& linear, const Recorder& recorder)
      : recorder_(recorder),
        input_(read(linear.arguments[0])),
        weight_(read(linear.arguments[1])),
        bias_(read(linear.arguments[2])),
        matrix_(input_) {}

  /// Is all of it known?
  bool follow(const std::vector<Observed>& parts) {
    for (const Observed& part : parts)
      if (part.parts.empty() ? !follow(part.call) : !follow(part.parts)) return false;
    return true;
  }

  std::optional<Shape> shape(Register output) const {
    if (product_ == kNone || output != result_) return std::nullopt;
    for (Register r : {input_, weight_, bias_, output})
      if (r != kNone && !is_plain(r)) return std::nullopt;
    const Seen &matrix = recorder_.seen(matrix_), &weight = recorder_.seen(weight_);
    if (matrix.sizes.size() != 2 || weight.sizes.size() != 2) return std::nullopt;
    Shape shape{recorder_.seen(input_).sizes, recorder_.seen(output).sizes};
    shape.rows = matrix.sizes[0];
    shape.in = matrix.sizes[1];
    shape.out = weight.sizes[0];
    shape.input_strides = matrix.strides;
    shape.flattens = matrix_ != input_;
    shape.weight_first = weight_first_;
    shape.weight_by_row = weight.strides[1] == 1 && weight.strides[0] == shape.in;
    return shape;
  }

 private:
  static Register read(const OperatorArgument& argument) {
    return argument.kind == OperatorArgument::Tensor ? argument.registers[0] : kNone;
  }

  bool is_plain(Register r) const {
    const Seen& seen = recorder_.seen(r);
    return seen.plain && !seen.data_shaped && seen.dtype == recorder_.seen(input_).dtype &&
           c10::isFloatingType(seen.dtype);
  }

  bool follow(const OperatorCall& call) {
    const std::string_view name = call.op.operator_name().name;
    if (call.results.size() != 1 || call.results[0].kind != OperatorResult::Tensor) return false;
    const Register made = call.results[0].registers[0];
    auto reads = [&](size_t argument, Register r) { return r != kNone && read(call.arguments[argument]) == r; };
    if (name == "aten::t" && reads(0, weight_) && transposed_ == kNone) {
      transposed_ = made;
      weight_first_ = matrix_ != input_;  // the node made last goes first
      return true;
    }
    if (name == "aten::view" && reads(0, input_) && product_ == kNone) {
      matrix_ = made;
      return true;
    }
    if ((name == "aten::view" || name == "aten::_unsafe_view") && reads(0, product_) && result_ == product_) {
      result_ = made;
      return true;
    }
    const bool with_bias = name == "aten::addmm" && reads(0, bias_) && reads(1, matrix_) && reads(2, transposed_);
    const bool without = name == "aten::mm" && bias_ == kNone && reads(0, matrix_) && reads(1, transposed_);
    if (product_ != kNone || (!with_bias && !without)) return false;
    product_ = result_ = made;
    return true;
  }

  const Recorder& recorder_;
  Register input_, weight_, bias_;
  Register matrix_, transposed_ = kNone, product_ = kNone, result_ = kNone;
  bool weight_first_ = false;
};

// ---- the state of the thread

/// Do tensors of these keys answer to the CPU's kernels and autograd alone, on this thread, now?
bool is_plain(c10::DispatchKeySet keys) {
  constexpr c10::DispatchKeySet expected({c10::DispatchKey::CPU, c10::DispatchKey::AutogradCPU});
  constexpr c10::DispatchKeySet beside({c10::DispatchKey::BackendSelect, c10::DispatchKey::ADInplaceOrView});
  const c10::impl::LocalDispatchKeySet tls = c10::impl::tls_local_dispatch_key_set();
  return ((keys | tls.included_) - tls.excluded_ - beside) == expected;
}

/// Does nobody look at the nodes and operators themselves: a profiler, anomaly mode, hooks of saved tensors?
bool is_unwatched() {
  return !torch::autograd::AnomalyMode::is_enabled() && at::SavedTensorDefaultHooks::get_tls_state().stack.empty() &&
         !at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION).has_value();
}

bool has_tangent(const at::Tensor& tensor) { return tensor.defined() && tensor._fw_grad(0).defined(); }

// ---- the node

/// Which gradients are wanted, and those found: of bias, input and weight, in the order of the node's edges.
using Wanted = std::array<bool, 3>;
constexpr size_t kOfBias = 0;
size_t of_input(const Shape& shape) { return shape.weight_first ? 2 : 1; }
size_t of_weight(const Shape& shape) { return shape.weight_first ? 1 : 2; }

at::Tensor gradient_of_input(const Shape& shape, const at::Tensor& gradient, const at::Tensor& weight) {
  const bool by_column = shape.input_strides[0] == 1 && shape.input_strides[1] == shape.rows;
  at::Tensor found = by_column ? weight.t().mm(gradient.t()).t() : gradient.mm(weight);
  return shape.flattens ? found.reshape(shape.input) : found;
}

at::Tensor gradient_of_weight(const Shape& shape, const at::Tensor& gradient, const at::Tensor& input) {
  const at::Tensor matrix = shape.flattens ? input.reshape({shape.rows, shape.in}) : input;
  return shape.weight_by_row ? gradient.t().mm(matrix) : matrix.t().mm(gradient).t();
}

/// By the formulas and in the layouts of PyTorch's nodes.
variable_list gradients_of(const Shape& shape, const Wanted& wanted, const at::Tensor& output, const at::Tensor& input,
                           const at::Tensor& weight) {
  variable_list found(wanted.size());
  if (!output.defined()) return found;
  std::optional<at::AutoDispatchBelowADInplaceOrView> below;
  if (!c10::GradMode::is_enabled() && is_plain(output.key_set())) below.emplace();
  const at::Tensor gradient = shape.flattens ? output.reshape({shape.rows, shape.out}) : output;
  if (wanted[kOfBias]) found[kOfBias] = gradient;  // the engine sums its rows
  if (wanted[of_input(shape)]) found[of_input(shape)] = gradient_of_input(shape, gradient, weight);
  if (wanted[of_weight(shape)]) found[of_weight(shape)] = gradient_of_weight(shape, gradient, input);
  return found;
}

class LinearBackward final : public torch::autograd::Node {
 public:
  LinearBackward(std::shared_ptr<const Shape> shape, const at::Tensor& input, const at::Tensor& weight,
                 const at::Tensor& bias)
      : shape_(std::move(shape)) {
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

  // For compiled autograd: what a graph of it may be kept for, and the node in that graph.
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
    const at::Tensor input = wanted[of_weight(*shape_)] ? input_.unpack() : at::Tensor();
    const at::Tensor weight = wanted[of_input(*shape_)] ? weight_.unpack() : at::Tensor();
    return gradients_of(*shape_, wanted, gradients[0], input, weight);
  }

  std::shared_ptr<const Shape> shape_;
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
  const std::string bound = compiler->bind_function(saved.get_py_compiler(), name(), function, types);
  const c10::IValue metadata =
      IValuePacker<std::vector<std::optional<InputMetadata>>>::pack(get_input_metadata(next_edges()));
  variable_list found =
      compiler->call_function(saved.get_py_compiler(), "apply_functional", bound, gradients, packed.vec(), metadata);
  saved.after(input_);
  saved.after(weight_);
  return found;
}

// ---- the instruction

struct Linear final : Bound {
  explicit Linear(Shape shape) : shape(std::make_shared<const Shape>(std::move(shape))) {}
  std::shared_ptr<const Shape> shape;  // nodes may outlive the tape
};

at::Tensor multiply(const Shape& shape, const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  at::AutoDispatchBelowADInplaceOrView below;
  const at::Tensor transposed = make_view(weight, {shape.in, shape.out}, {weight.stride(1), weight.stride(0)}, 0);
  const at::Tensor matrix = make_view(input, {shape.rows, shape.in}, shape.input_strides, 0);
  at::Tensor output = bias.defined() ? at::cpu::addmm(bias, matrix, transposed) : at::cpu::mm(matrix, transposed);
  output.unsafeGetTensorImpl()->set_sizes_contiguous(shape.output);
  return output;
}

at::Tensor call_linear(const Linear& linear, const at::Tensor& input, const at::Tensor& weight,
                       const at::Tensor& bias) {
  const bool plain = is_plain(input.key_set()) && is_plain(weight.key_set()) &&
                     (!bias.defined() || is_plain(bias.key_set())) && is_unwatched();
  const bool differentiable = plain && torch::autograd::compute_requires_grad(input, weight, bias);
  if (!differentiable || has_tangent(input) || has_tangent(weight) || has_tangent(bias))
    return at::linear(input, weight, bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt);
  auto node = c10::make_intrusive<LinearBackward>(linear.shape, input, weight, bias);
  at::Tensor output = multiply(*linear.shape, input, weight, bias);
  torch::autograd::set_history(output, node);
  return output;
}

void run_linear(const Instruction& instruction, Run& run) {
  static const at::Tensor none;
  const OperatorCall& call = *instruction.call;
  auto tensor = [&](size_t i) -> const at::Tensor& {
    const OperatorArgument& argument = call.arguments[i];
    return argument.kind == OperatorArgument::Tensor ? *run.tensors[argument.registers[0]] : none;
  };
  const auto& linear = static_cast<const Linear&>(*instruction.bound);
  run.own[call.results[0].registers[0]] = call_linear(linear, tensor(0), tensor(1), tensor(2));
}

}  // namespace

bool is_prepared_linear(const Instruction& instruction) { return instruction.invoke == run_linear; }

void prepare_linear(Instruction& instruction, const std::vector<Observed>& parts, const Recorder& recorder) {
  const OperatorCall& call = *instruction.call;
  if (call.op.operator_name().name != "aten::linear" || call.results[0].kind != OperatorResult::Tensor) return;
  Parts followed(call, recorder);
  if (!followed.follow(parts)) return;
  std::optional<Shape> shape = followed.shape(call.results[0].registers[0]);
  if (!shape) return;
  instruction.bound = std::make_unique<Linear>(std::move(*shape));
  instruction.invoke = run_linear;
  instruction.typed = true;
}

}  // namespace gramme::native
