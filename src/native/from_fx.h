// Converts a torch.fx.GraphModule to a native program.
#pragma once
#include "tape/program.h"

namespace gramme::native {

/// Converts the module's present graph. Throws PythonError.
Program from_fx(PyObject* graph_module);

}  // namespace gramme::native
