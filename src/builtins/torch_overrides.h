// Tensors whose class has a __torch_function__: calls of torch are passed to it.
#pragma once
#include "builtins/torch_support.h"

namespace gramme::builtins {

/// The traced result of the __torch_function__ of an operand's class; null if PyTorch asks none.
Value* ask_classes(Trace& trace, PyObject* callable, const Args& args);
/// The same for an attribute defined by a C descriptor.
Value* ask_for_attribute(Trace& trace, value::Tensor* tensor, PyObject* descriptor);

/// True for torch's callables, which torch function modes and classes may intercept.
bool is_of_torch(PyObject* callable);
/// True for functions of functorch, which take no part in __torch_function__.
bool is_of_functorch(PyObject* callable);
/// True for functions that PyTorch lists as never overridden.
bool is_ignored(PyObject* callable);

}  // namespace gramme::builtins
