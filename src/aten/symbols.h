// torch.SymFloat, as aten/python.h has torch.SymInt.
#pragma once
#include <c10/core/SymFloat.h>

#include "base/ref.h"

namespace gramme::aten {

/// The value of a float or torch.SymFloat. Throws PythonError.
c10::SymFloat symfloat_of(PyObject* object);
/// A new torch.SymFloat of a node. Throws PythonError.
Owned<> symfloat_object(const c10::SymNode& node);
/// The node that a symbolic one was made of: PyTorch wraps it on the way through Python. Needs the GIL.
c10::SymNode node_of(const c10::SymFloat& number);

}  // namespace gramme::aten
