// Conversions between torch.SymFloat objects and c10::SymFloat; aten/python.h has those of torch.SymInt.
#pragma once
#include <c10/core/SymFloat.h>

#include "base/ref.h"

namespace gramme::aten {

/// The value of a float or torch.SymFloat. Throws PythonError.
c10::SymFloat symfloat_of(PyObject* object);
/// A new torch.SymFloat of a node. Throws PythonError.
Owned<> symfloat_object(const c10::SymNode& node);
/// The node behind a symbolic float, without the wrapper that PyTorch adds on the way through Python. Needs the GIL.
c10::SymNode node_of(const c10::SymFloat& number);

}  // namespace gramme::aten
