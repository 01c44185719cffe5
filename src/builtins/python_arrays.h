// Helpers shared by the models of NumPy calls with arrays.
#pragma once
#include "base/imported.h"
#include "builtins/torch_support.h"
#include "trace/arrays.h"

namespace gramme::builtins {

/// An object of gramme._numpy, imported on demand; lives as long as the process.
inline PyObject* helper(const char* name) { return imported("gramme._numpy", name).release(); }

/// Ends the segment if NumPy could not share the tensor's memory as the graph has it.
void refuse_tensor(const value::Tensor* tensor, const char* wanted);

/// Registers Tensor.numpy(), torch.from_numpy() and the like.
void register_tensors_of_arrays();

}  // namespace gramme::builtins
