// The autograd node of a linear layer, where PyTorch makes four.
#pragma once
#include <ATen/ATen.h>
#include <c10/util/DimVector.h>
#include <torch/csrc/autograd/function.h>

#include <memory>

namespace gramme::native {

/// The sizes of a call of linear, and how PyTorch's nodes would lay out and order its gradients.
struct LinearShape {
  c10::DimVector input, output;
  int64_t rows = 0, in = 0, out = 0;
  c10::DimVector input_strides;  // of the input as a matrix [rows, in]
  bool flattens = false;         // the input is no matrix
  bool weight_by_row = false;    // the rows of the weight lie one after the other
  bool weight_first = false;     // eager has the weight's gradient before the input's
};

/// True if tensors of these keys answer to the CPU's kernels and autograd alone, on this thread, now.
bool is_only_cpu(c10::DispatchKeySet keys);

/// A node that gives gradients to `bias` (undefined if there is none), `input` and `weight`, and saves what it needs of
/// them.
c10::intrusive_ptr<torch::autograd::Node> make_linear_node(std::shared_ptr<const LinearShape> shape,
                                                           const at::Tensor& input, const at::Tensor& weight,
                                                           const at::Tensor& bias);

}  // namespace gramme::native
