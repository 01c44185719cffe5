// Autocast in a tape: casts of parameters are made before it, as inputs of it.
//
// Autocast keeps its cast of a parameter until the outermost autocast ends, and whatever uses the parameter until then
// shares it, also outside of the graph. So gradients of all uses are summed in the lower dtype. A cast below autograd
// would be a second one.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace gramme::native {

/// An input of a tape that is the cast of another one.
struct CastInput {
  size_t input;  // a tensor among the program's
  c10::ScalarType dtype;
};

/// True if autocast keeps its cast of the tensor: of a float32 leaf that needs a gradient.
bool is_cached_by_autocast(const at::Tensor& tensor);
/// Appends the casts as the program would make them, or has made them already. False if autocast's would have another
/// dtype: its cache knows parameters, not dtypes. Call without the GIL.
bool add_casts(const std::vector<CastInput>& casts, std::vector<at::Tensor>& inputs);

/// The thread's autocast on the CPU.
struct AutocastState {
  bool on, cached;
  c10::ScalarType dtype;
  static AutocastState read();
  bool operator==(const AutocastState&) const = default;
};

}  // namespace gramme::native
