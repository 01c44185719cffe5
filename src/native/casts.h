// Autocast in a recorded backward: casts of parameters are made before the tape, as inputs of it.
//
// Autocast keeps its cast of a parameter until the outermost autocast ends, and whatever uses the parameter until then
// shares it, also outside of the graph. So gradients of all uses are summed in the lower dtype. A cast below autograd
// would be a second one.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace gramme::native {

/// An input of a flat tape that is the cast of another one.
struct CastInput {
  size_t input;  // of the program
  c10::ScalarType dtype;
};

/// True if autocast keeps its cast of the tensor: of a float32 leaf that needs a gradient.
bool is_cached_by_autocast(const at::Tensor& tensor);
/// The cast as the program would make it, or has made it already.
at::Tensor cast_input(const at::Tensor& input, c10::ScalarType dtype);

/// The thread's autocast on the CPU.
struct AutocastState {
  bool on, cached;
  c10::ScalarType dtype;
  static AutocastState read();
  bool operator==(const AutocastState&) const = default;
};

}  // namespace gramme::native
