// `loss.backward()` between two segments, without PyTorch's engine and the Python in front of it.
#pragma once
#include <Python.h>

namespace gramme::native {

/// Call while the module is loaded: notes the functions that Tensor.backward calls.
void note_backward();
/// Runs the backward of a loss whose graph is one recorded backward that ends at leaves: 1 if it ran, -1 with an error
/// set; 0, without effects, where a program can tell.
int run_backward(PyObject* loss);

}  // namespace gramme::native
