// Recognises the operators that a recorded aten::linear called, and repeats the same matrix multiplication as one
// instruction.
#include "passes/linear.h"

#include <ATen/TensorUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <string_view>

#include "aten/state.h"
#include "passes/linear_node.h"
#include "passes/views.h"
#include "tape/invoke.h"

namespace gramme::native {
namespace {

// ---- recognising recorded calls

/// Matches the calls that linear made.
class Parts {
 public:
  Parts(const OperatorCall& linear, const Recorder& recorder)
      : recorder_(recorder),
        input_(read(linear.arguments[0])),
        weight_(read(linear.arguments[1])),
        bias_(read(linear.arguments[2])),
        matrix_(input_) {}

  /// True if all calls are recognised.
  bool follow(const std::vector<Observed>& parts) {
    for (const Observed& part : parts)
      if (part.parts.empty() ? !follow(part.call) : !follow(part.parts)) return false;
    return true;
  }

  /// True if all tensors are plain ones of one type.
  bool is_float(Register output) const {
    for (Register r : {input_, weight_, bias_, output})
      if (r != kNone && !is_plain_float(r)) return false;
    return product_ != kNone;
  }

  std::optional<LinearShape> shape(Register output) const {
    if (output != result_ || !is_float(output)) return std::nullopt;
    for (Register r : {input_, weight_, bias_, output})
      if (r != kNone && recorder_.seen(r).data_shaped) return std::nullopt;
    const Seen &matrix = recorder_.seen(matrix_), &weight = recorder_.seen(weight_);
    if (matrix.sizes().size() != 2 || weight.sizes().size() != 2) return std::nullopt;
    LinearShape shape{c10::DimVector(recorder_.seen(input_).sizes()), c10::DimVector(recorder_.seen(output).sizes())};
    shape.rows = matrix.sizes()[0];
    shape.in = matrix.sizes()[1];
    shape.out = weight.sizes()[0];
    shape.input_strides = matrix.strides();
    shape.flattens = matrix_ != input_;
    shape.weight_first = weight_first_;
    shape.weight_by_row = weight.strides()[1] == 1 && weight.strides()[0] == shape.in;
    return shape;
  }

 private:
  static Register read(const OperatorArgument& argument) {
    return argument.kind == OperatorArgument::Tensor ? argument.registers[0] : kNone;
  }

  bool is_plain_float(Register r) const {
    const Seen& seen = recorder_.seen(r);
    return seen.plain && seen.dtype() == recorder_.seen(input_).dtype() && c10::isFloatingType(seen.dtype());
  }

  bool follow(const OperatorCall& call) {
    const std::string_view name = call.op.operator_name().name;
    if (call.results.size() != 1 || call.results[0].kind != OperatorResult::Tensor) return false;
    const Register made = call.results[0].registers[0];
    auto reads = [&](size_t argument, Register r) { return r != kNone && read(call.arguments[argument]) == r; };
    if (name == "aten::t" && reads(0, weight_) && transposed_ == kNone) {
      transposed_ = made;
      weight_first_ = matrix_ != input_;  // the engine runs the node made last first
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

// ---- the instruction

/// True if nodes, saved tensors and operators cannot be observed.
bool is_hidden() { return !torch::autograd::AnomalyMode::is_enabled() && !aten::saved_tensors_hooked() && unwatched(); }

bool has_tangent(const at::Tensor& tensor) { return tensor.defined() && tensor._fw_grad(0).defined(); }

struct Linear final : Bound {
  const char* note(bool below_autograd) const override { return below_autograd ? " as one call" : " as one node"; }
  explicit Linear(LinearShape shape) : shape(std::make_shared<const LinearShape>(std::move(shape))) {}
  std::shared_ptr<const LinearShape> shape;  // shared: nodes may outlive the tape
};

at::Tensor multiply(const LinearShape& shape, const at::Tensor& input, const at::Tensor& weight,
                    const at::Tensor& bias) {
  at::AutoDispatchBelowADInplaceOrView below;
  const at::Tensor transposed = make_view(weight, {shape.in, shape.out}, {weight.stride(1), weight.stride(0)}, 0);
  const at::Tensor matrix = make_view(input, {shape.rows, shape.in}, shape.input_strides, 0);
  at::Tensor output = bias.defined() ? at::cpu::addmm(bias, matrix, transposed) : at::cpu::mm(matrix, transposed);
  output.unsafeGetTensorImpl()->set_sizes_contiguous(shape.output);
  return output;
}

/// at::linear of plain tensors, below autograd.
at::Tensor multiply(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  const int64_t rank = input.dim();
  const bool contiguous = rank == 3 && input.numel() != 0 && input.is_contiguous();
  // without a bias, at::matmul also checks strides of size-1 dimensions, and may choose bmm
  const bool flattens = contiguous && (bias.defined() || input.stride(0) == input.stride(1) * input.size(1));
  const bool same = weight.dim() == 2 && input.scalar_type() == weight.scalar_type() && (rank == 2 || flattens) &&
                    input.size(rank - 1) == weight.size(1);
  if (!same) return at::linear(input, weight, bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt);
  const at::Tensor transposed =
      make_view(weight, {weight.size(1), weight.size(0)}, {weight.stride(1), weight.stride(0)}, 0);
  at::Tensor matrix;
  if (flattens) {
    const c10::DimVector sizes{input.size(0) * input.size(1), input.size(2)};
    const bool in_rows = input.stride(2) == 1;  // otherwise there is a single column
    matrix = make_view(
        input, sizes,
        in_rows ? c10::DimVector{sizes[1], 1} : *at::detail::computeStride(input.sizes(), input.strides(), sizes), 0);
  }
  const at::Tensor& left = flattens ? matrix : input;
  at::Tensor output = bias.defined() ? at::cpu::addmm(bias, left, transposed) : at::cpu::mm(left, transposed);
  if (flattens) output.unsafeGetTensorImpl()->set_sizes_contiguous({input.size(0), input.size(1), weight.size(0)});
  return output;
}

/// True if the operands are as recorded. Guards ensure it, but another thread may replace a parameter's data.
bool fits(const LinearShape& shape, const at::Tensor& input, const at::Tensor& weight) {
  return input.sizes() == shape.input && weight.dim() == 2 && weight.size(0) == shape.out && weight.size(1) == shape.in;
}

at::Tensor call_linear(const Linear& linear, const at::Tensor& input, const at::Tensor& weight,
                       const at::Tensor& bias) {
  const bool plain = !*linear.shape->twice && is_only_cpu(input.key_set()) && is_only_cpu(weight.key_set()) &&
                     (!bias.defined() || is_only_cpu(bias.key_set())) && is_hidden();
  const bool differentiable =
      plain && fits(*linear.shape, input, weight) && torch::autograd::compute_requires_grad(input, weight, bias);
  if (!differentiable || has_tangent(input) || has_tangent(weight) || has_tangent(bias))
    return at::linear(input, weight, bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt);
  const auto node = make_linear_node(linear.shape, input, weight, bias);
  at::Tensor output = multiply(*linear.shape, input, weight, bias);
  torch::autograd::set_history(output, node);
  return output;
}

/// The operand; undefined if it was omitted.
const at::Tensor& operand(const OperatorCall& call, size_t i, const Run& run) {
  static const at::Tensor none;
  const OperatorArgument& argument = call.arguments[i];
  return argument.kind == OperatorArgument::Tensor ? *run.tensors[argument.registers[0]] : none;
}

void run_linear(const Instruction& instruction, Run& run) {
  const OperatorCall& call = *instruction.call;
  const auto& linear = static_cast<const Linear&>(*instruction.bound);
  run.own[call.results[0].registers[0]] =
      call_linear(linear, operand(call, 0, run), operand(call, 1, run), operand(call, 2, run));
}

void run_below_autograd(const Instruction& instruction, Run& run) {
  const OperatorCall& call = *instruction.call;
  run.own[call.results[0].registers[0]] = multiply(operand(call, 0, run), operand(call, 1, run), operand(call, 2, run));
}

}  // namespace

bool is_prepared_linear(const Instruction& instruction) {
  return instruction.invoke == run_linear || instruction.invoke == run_below_autograd;
}

std::vector<std::shared_ptr<std::atomic<bool>>> second_derivatives_of(const Tape& tape) {
  std::vector<std::shared_ptr<std::atomic<bool>>> flags;
  for (const Instruction& instruction : tape.instructions)
    if (instruction.invoke == run_linear) flags.push_back(static_cast<const Linear&>(*instruction.bound).shape->twice);
  return flags;
}

bool makes_no_view(const Instruction& instruction) {
  return instruction.invoke == run_below_autograd && instruction.call->arguments[2].kind != OperatorArgument::Tensor;
}

void prepare_linear(Instruction& instruction, const std::vector<Observed>& parts, const Recorder& recorder,
                    bool below_autograd) {
  const OperatorCall& call = *instruction.call;
  if (call.op.operator_name().name != "aten::linear" || call.results[0].kind != OperatorResult::Tensor) return;
  Parts followed(call, recorder);
  if (!followed.follow(parts)) return;
  if (below_autograd) {
    if (!followed.is_float(call.results[0].registers[0])) return;
    instruction.invoke = run_below_autograd;
    instruction.typed = true;
    return;
  }
  std::optional<LinearShape> shape = followed.shape(call.results[0].registers[0]);
  if (!shape) return;
  instruction.bound = std::make_unique<Linear>(std::move(*shape));
  instruction.invoke = run_linear;
  instruction.typed = true;
}

}  // namespace gramme::native
