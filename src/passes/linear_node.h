// One autograd node for a linear layer, instead of PyTorch's four.
#pragma once
#include <ATen/ATen.h>
#include <c10/util/DimVector.h>
#include <torch/csrc/autograd/function.h>

#include <atomic>
#include <memory>

namespace gramme::native {

/// The sizes of a linear call, and the layouts and order of PyTorch's gradients for it.
struct LinearShape {
  c10::DimVector input, output;
  int64_t rows = 0, in = 0, out = 0;
  c10::DimVector input_strides;  // of the input as a matrix [rows, in]
  bool flattens = false;         // the input is no matrix
  bool weight_by_row = false;    // the weight's rows are contiguous
  bool weight_first = false;     // eager computes the weight's gradient before the input's
  /// Set once gradients of gradients were asked for. Their sums associate as in eager over PyTorch's nodes only.
  std::shared_ptr<std::atomic<bool>> twice = std::make_shared<std::atomic<bool>>(false);
};

/// True if operators on tensors with these keys reach only CPU kernels and autograd, on this thread at present.
bool is_only_cpu(c10::DispatchKeySet keys);

/// Makes the node, with edges to `bias` (undefined if there is none), `input` and `weight`; saves what it needs of
/// them.
c10::intrusive_ptr<torch::autograd::Node> make_linear_node(std::shared_ptr<const LinearShape> shape,
                                                           const at::Tensor& input, const at::Tensor& weight,
                                                           const at::Tensor& bias);

}  // namespace gramme::native
