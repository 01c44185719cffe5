// Steps that wait for a local tensor. Where a capture has added one behind DTensor.to_local(), the graph of autograd
// has no node for it, as in eager.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

#include "tape/program.h"

namespace gramme::native {

/// The class of wrappers that wait for a collective, borrowed; null if there is none.
PyObject* class_of_waiting();
/// The tensor inside such a wrapper. Throws PythonError.
Owned<> inside(PyObject* waiting);

using WaitOperator = c10::TypedOperatorHandle<at::Tensor(const at::Tensor&)>;
/// The operator of a wait that a capture has put behind DTensor.to_local(); nullopt for other steps.
std::optional<WaitOperator> wait_for_local(const Program& program, size_t index);
/// The tensor when the collective that makes it is done. The local tensor of an asynchronous one is a wrapper, whose
/// place in autograd's graph the tensor inside takes: an operator's node between them would be in Python.
Owned<> waited(const WaitOperator& wait, PyObject* object);

}  // namespace gramme::native
