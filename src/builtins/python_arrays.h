// What the models of NumPy's calls with arrays share.
#pragma once
#include "base/imported.h"
#include "builtins/torch_support.h"
#include "trace/arrays.h"

namespace gramme::builtins {

/// A name of gramme._numpy, which is imported if it is not yet; lives as long as the process.
inline PyObject* helper(const char* name) { return imported("gramme._numpy", name).release(); }

/// Ends the segment if NumPy would not have the tensor's memory as the graph has it.
void refuse_tensor(const value::Tensor* tensor, const char* wanted);

/// Tensor.numpy(), torch.from_numpy() and its like.
void register_tensors_of_arrays();

}  // namespace gramme::builtins
