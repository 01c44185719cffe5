// Tensors whose class has a __torch_function__: what torch calls is given to it.
#pragma once
#include "builtins/torch_support.h"

namespace gramme::builtins {

/// The call as the handler of a class among the operands makes it, traced; null if PyTorch asks none.
Value* ask_classes(Trace& trace, PyObject* callable, const Args& args);
/// The same of an attribute that the descriptor in C gives.
Value* ask_for_attribute(Trace& trace, value::Tensor* tensor, PyObject* descriptor);

/// True if it is torch's, and so perhaps seen by torch function modes and classes.
bool is_of_torch(PyObject* callable);
/// True if it takes no part in __torch_function__.
bool is_of_functorch(PyObject* callable);
/// True for functions that PyTorch lists as never overridden.
bool is_ignored(PyObject* callable);

}  // namespace gramme::builtins
